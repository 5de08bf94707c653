"""The account of a quarter's tips, from what the ledger, messages and jobs hold."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Connection, update
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.jobs.reports.test_diagnosis import BUSY, minutes_of, running_job
from tests.jobs.world import world
from tests.reminders import reminder_rows

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.listing.tips import tips_of_quarter
from costguard.jobs.rows import job_events
from costguard.ledger import job_costs
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import AttemptState
from costguard.model.job import JobState
from costguard.model.money import Money, Priced
from costguard.spend.tips.quarter import Quarter
from costguard.spend.tips.rules import TipAccount, TipKind, TipOutcome

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
UTC_ZONE = ZoneInfo("UTC")
Q4 = Quarter(2026, 4)
ANA = "ada@lab.example"


def tips(database: Database, quarter: Quarter = Q4, now: datetime = NOW) -> TipAccount:
    with database.read() as connection:
        return tips_of_quarter(connection, accrual_at(connection, now), quarter, UTC_ZONE)


def outcomes(made: TipAccount, kind: TipKind) -> dict[str, tuple[TipOutcome, Priced | None]]:
    return {tip.subject: (tip.judged.outcome, tip.judged.saved) for tip in made.tips if tip.kind is kind}


def reminded(connection: Connection, name: str, days: float, ran_on: float | None = 2, **given: str) -> tuple[int, int]:
    """A T4 that was reminded of so many days ago, and stopped so many hours later: $0.53 an hour."""
    at = NOW - days * DAY
    vm = rows.instance(connection, name)
    ends = {} if ran_on is None else {"ended_at": at + ran_on * HOUR, "end_reason": "stopped", "ended_by": ANA}
    life = rows.lifetime(connection, vm, at - 9 * HOUR, **{**ends, **given})
    reminder_rows.message(connection, f"m/{name}", subject=f"run:{vm}:{life}", instance_id=vm, accepted_at=at)
    return vm, life


def test_a_quarter_of_reminders_is_judged_by_what_happened_to_each_run(database: Database) -> None:
    """Stopped by a user at Google or by a click, started again, by a rule, and not at all."""
    with database.write() as connection:
        rows.prices(connection)
        reminded(connection, "stopped", 5)
        again, _ = reminded(connection, "again", 6)
        rows.lifetime(connection, again, NOW - 6 * DAY + 12 * HOUR)
        clicked, life = reminded(connection, "clicked", 7, ended_by="costguard@lab.iam.gserviceaccount.com")
        subject = f"run:{clicked}:{life}"
        request = reminder_rows.request(connection, clicked, subject)
        reminder_rows.stop(connection, clicked, life, NOW - 7 * DAY + HOUR, request_id=request)
        ruled, life = reminded(connection, "ruled", 8, ended_by="costguard@lab.iam.gserviceaccount.com")
        reminder_rows.stop(connection, ruled, life, NOW - 8 * DAY + HOUR)
        reminded(connection, "on", 9, None)
        reminded(connection, "fresh", 0.1, None)
        reminded(connection, "summer", 60)  # of the quarter before
    made = tips(database)
    day, ten = Priced(Money.of("12.72")), Priced(Money.of("5.30"))  # 24 h, and the 10 h until it ran again
    assert outcomes(made, TipKind.REMINDER) == {
        "stopped": (TipOutcome.FOLLOWED, day),
        "again": (TipOutcome.FOLLOWED, ten),
        "clicked": (TipOutcome.FOLLOWED, day),
        "ruled": (TipOutcome.NOT_FOLLOWED, None),
        "on": (TipOutcome.NOT_FOLLOWED, None),
        "fresh": (TipOutcome.PENDING, None),
    }
    assert (made.given, made.followed, made.saved) == (6, 3, day + ten + day)
    assert list(outcomes(tips(database, Quarter(2026, 3)), TipKind.REMINDER)) == ["summer"]


def hinted(connection: Connection, job_id: str, asked_after: float | None) -> None:
    """A job that was hinted at three days ago, on a VM of $4 an hour, and cancelled so many hours later."""
    at = NOW - 3 * DAY
    job = job_rows.added(connection, job_id, created_at=at - DAY, work=None, command=("python", f"{job_id}.py"))
    job_rows.attempt(connection, job_id, rate=Money.of(4), state=AttemptState.OVER, made_at=at - DAY)
    audit_log.append(connection, [job_events.stands_still(job, "loss", "gained nothing", "m1", at)], at)
    if asked_after is not None:
        ended = at + asked_after * HOUR
        values = {"cancel_asked_at": ended, "cancel_asked_by": ANA, "settled_at": ended, "state": "cancelled"}
        connection.execute(update(tables.jobs).where(tables.jobs.c.id == job_id).values(values))


def test_hints_are_judged_by_the_jobs_end_and_count_their_vm_once(database: Database) -> None:
    """A reminder of the same job's VM, which its owner stopped as well, saves nothing more."""
    with database.write() as connection:
        rows.prices(connection)
        hinted(connection, "stopped", 1)
        hinted(connection, "on", None)
        reminded(connection, "cg-stopped-1", 4, job="stopped")
    made = tips(database)
    assert outcomes(made, TipKind.STANDSTILL) == {
        "stopped": (TipOutcome.FOLLOWED, Priced(Money.of(96))),
        "on": (TipOutcome.NOT_FOLLOWED, None),
    }
    assert outcomes(made, TipKind.REMINDER) == {"cg-stopped-1": (TipOutcome.FOLLOWED, Priced())}
    assert made.saved == Priced(Money.of(96))


def test_a_diagnosis_is_judged_by_the_next_run_of_the_training(sqlite_url: str) -> None:
    """The next run makes twice the steps and waits no more: it saves what it cost. Before it the tip pends."""
    with world(sqlite_url) as w:
        quarter = Quarter.at(w.clock.now(), UTC_ZONE)
        running_job(w, command=("python", "train.py", "--workers", "2"))
        minutes_of(w, 13, pace=60)
        (tip,) = tips(w.database, quarter, w.clock.now()).tips
        assert (tip.kind, tip.judged.outcome) == (TipKind.DIAGNOSIS, TipOutcome.PENDING)
        w.exit("cg-j1-1")
        w.settle()
        assert w.job().state is JobState.SUCCEEDED
        running_job(w, "j2", command=("python", "train.py", "--workers", "8"))
        minutes_of(w, 13, BUSY, "cg-j2-1", pace=120)
        w.look()
        (tip,) = tips(w.database, quarter, w.clock.now()).tips
        assert (tip.subject, tip.judged.outcome) == ("j1", TipOutcome.FOLLOWED)
        assert tip.judged.saved is not None
        with w.database.read() as connection:
            cost = job_costs.costs(connection, accrual_at(connection, w.clock.now()), ["j2"])["j2"]
        assert tip.judged.saved.amount.nanos == pytest.approx(cost.amount.nanos, rel=0.02)
