"""Due times become jobs, once each, whatever happens in between."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.archives import MemoryArchives, packed
from tests.jobs.job_service import RULES, JobSetup, priced
from tests.jobs.world import CrashPoint, FragileDatabase, Killed
from tests.schedules.schedule_story import DAY, ID, order, settle, tell, template, to_due, turn

from costguard.access import token_rows
from costguard.access.roles import Actor
from costguard.access.rules import Access
from costguard.access.token_rows import ApiToken
from costguard.db.lease import acquire
from costguard.db.named import RowFilters
from costguard.db.transaction import Database
from costguard.errors import Conflict, LeaseLost, Unavailable
from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submit import JobService
from costguard.ledger.accrual import accrual_at
from costguard.model.access import PERMISSIONS, Authority, Role, Via
from costguard.model.job import Job, JobCode, JobState
from costguard.schedules import listing
from costguard.schedules.schedule import RunOutcome, Schedule, ScheduleState
from costguard.schedules.turn import SchedulesReport, SchedulesTurn

ADA = Actor("ada@lab.example")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def office(database: Database) -> JobSetup:
    return JobSetup(priced(database))


def created(office: JobSetup, **changed: object) -> Schedule:
    return office.schedules.create(order(**changed), None, "cli")[0]


def detail(office: JobSetup, schedule_id: str = "c1") -> listing.ScheduleOverview:
    with office.database.read() as connection:
        overview = listing.schedule_detail(connection, accrual_at(connection, office.clock.now()), schedule_id)
    assert overview is not None
    return overview


def runs(office: JobSetup, schedule_id: str = "c1") -> list[tuple[str, str | None]]:
    """Returns outcome and job of each run, the newest first."""
    return [(row.run.outcome.value, row.job) for row in detail(office, schedule_id).runs]


def job(office: JobSetup, job_id: str) -> Job:
    with office.database.read() as connection:
        stored = job_rows.read(connection, job_id)
    assert stored is not None
    return stored


def jobs(office: JobSetup) -> list[str]:
    with office.database.read() as connection:
        return sorted(one.id for one in job_rows.page(connection, job_rows.JobFilters(), None, 1000))


def kinds(office: JobSetup) -> list[str]:
    with office.database.read() as connection:
        return [stored.event.kind for stored in audit_log.read(connection)]


def texts(office: JobSetup, kind: str) -> list[str]:
    with office.database.read() as connection:
        return [stored.event.text for stored in audit_log.read(connection) if stored.event.kind == kind]


def test_due_run_is_launched_with_its_date_and_its_deadline(office: JobSetup) -> None:
    """02:00 in Berlin is 01:00 UTC in November; the deadline counts from there, however late the turn comes."""
    schedule = created(office, template=template(deadline_in=timedelta(hours=24), work=timedelta(hours=1)))
    assert schedule.next_due is not None
    assert f"{schedule.next_due:%d %H:%M}" == "21 01:00"
    assert turn(office) == SchedulesReport()
    to_due(office, schedule)
    office.clock.advance(timedelta(minutes=20))
    assert turn(office).launched == 1
    assert runs(office) == [("launched", "j1")]
    launched = job(office, "j1")
    assert launched.spec.command == ("python", "train.py", "--day", "2026-11-21")
    assert launched.spec.checkpoint is not None
    assert launched.spec.checkpoint.location == "gs://lab/nightly/2026-11-21"
    assert launched.spec.deadline == schedule.next_due + timedelta(hours=24)
    assert (launched.spec.name, launched.spec.schedule, launched.via) == ("nightly 2026-11-21 02:00", "c1", "schedule")
    assert turn(office) == SchedulesReport()
    assert detail(office).row.schedule.reason == "The next run is due at 2026-11-22 01:00 UTC."


def test_open_run_keeps_the_next_one_back(office: JobSetup) -> None:
    """The second run of a training that takes two days is skipped, and told; the third is launched."""
    schedule = created(office)
    for day in range(3):
        if day == 2:
            settle(office, "j1", JobState.SUCCEEDED)
        to_due(office, schedule, day)
        turn(office)
    assert runs(office) == [("launched", "j2"), ("skipped", None), ("launched", "j1")]
    assert texts(office, "ScheduleRunMissed") == [
        "The run of schedule nightly that was due at 2026-11-22 01:00 UTC was skipped: An earlier run is still open: "
        "job j1."
    ]


def test_overlapping_runs_are_launched_side_by_side(office: JobSetup) -> None:
    """The owner asked for it."""
    schedule = created(office, overlaps=True)
    for day in range(2):
        to_due(office, schedule, day)
        turn(office)
    assert runs(office) == [("launched", "j2"), ("launched", "j1")]


def test_times_that_passed_while_costguard_was_down_are_missed_and_told_once(office: JobSetup) -> None:
    """The newest is still launched, because it is late by an hour alone."""
    schedule = created(office)
    to_due(office, schedule, 3)
    office.clock.advance(timedelta(hours=1))
    turn(office)
    assert runs(office) == [("launched", "j1"), ("missed", None), ("missed", None), ("missed", None)]
    assert texts(office, "ScheduleRunMissed") == [
        "3 runs of schedule nightly up to 2026-11-23 01:00 UTC were missed: Costguard did not run then, or could not "
        "launch it by then."
    ]
    assert turn(office) == SchedulesReport()


def test_paused_schedule_launches_nothing_and_misses_nothing(office: JobSetup) -> None:
    """It goes on with the next time after it was resumed."""
    schedule = created(office)
    paused, is_new = office.schedules.pause("c1", ADA)
    assert (paused.state, paused.next_due, is_new) == (ScheduleState.PAUSED, None, True)
    assert office.schedules.pause("c1", ADA)[1] is False
    to_due(office, schedule, 2)
    assert turn(office) == SchedulesReport()
    resumed, _ = office.schedules.resume("c1", ADA)
    assert resumed.next_due == office.clock.now().replace(second=0) + DAY
    to_due(office, resumed)
    turn(office)
    assert runs(office) == [("launched", "j1")]
    ended, _ = office.schedules.end("c1", ADA)
    assert (ended.state, ended.next_due) == (ScheduleState.ENDED, None)
    with pytest.raises(Conflict, match="has ended"):
        office.schedules.resume("c1", ADA)


def test_refused_run_says_why_and_the_next_is_tried(office: JobSetup) -> None:
    """The owner lost the right to launch, and got it back."""
    schedule = created(office)
    office.rules = replace(RULES, access=Access(admins=frozenset({"root@lab.example"})))
    to_due(office, schedule)
    assert turn(office).refused == 1
    assert "ask an admin to be made an operator" in detail(office).runs[0].run.reason
    assert texts(office, "ScheduleRunRefused")[0].startswith(
        "The run of schedule nightly that was due at 2026-11-21 01:00 UTC was refused: The job is refused: "
    )
    office.rules = RULES
    to_due(office, schedule, 1)
    assert turn(office).launched == 1


def test_trouble_of_the_server_is_tried_again_until_it_is_too_late(office: JobSetup) -> None:
    """An answer that does not come is no refusal: one minute later it is tried again."""
    schedule, troubles = created(office, late=timedelta(minutes=5)), 2

    class Troubled(JobService):
        def submit(self, *arguments: object, **named: object) -> tuple[Job, bool]:
            nonlocal troubles
            if troubles:
                troubles -= 1
                raise Unavailable("The database of prices does not answer.")
            return office.it.submit(*arguments, **named)  # type: ignore[arg-type]

    def step() -> None:
        SchedulesTurn(office.database, office.clock, lambda: Troubled.__new__(Troubled)).run()

    to_due(office, schedule)
    step()
    assert runs(office) == [("launching", None)]
    assert detail(office).runs[0].run.reason == (
        "Its submission is tried again each minute. The database of prices does not answer."
    )
    step()  # too early
    assert troubles == 1
    office.clock.advance(MINUTE)
    step()
    office.clock.advance(MINUTE)
    step()
    assert runs(office) == [("launched", "j1")]
    settle(office, "j1", JobState.SUCCEEDED)
    troubles = 100
    to_due(office, schedule, 1)
    for _ in range(8):
        step()
        office.clock.advance(MINUTE)
    assert runs(office)[0] == ("missed", None)
    assert troubles == 94  # at its time, and each minute of five


def test_run_outside_of_the_times_is_launched_once(office: JobSetup) -> None:
    """Asking twice within a minute is one run; while it is open, another is refused."""
    created(office)
    office.schedules.pause("c1", ADA)
    run = office.schedules.run_now("c1", ADA)
    assert office.schedules.run_now("c1", ADA).due_at == run.due_at
    turn(office)
    assert office.schedules.run_now("c1", ADA, "key").job_id == "j1"
    assert runs(office) == [("launched", "j1")]
    assert job(office, "j1").spec.name == "nightly 2026-11-20 13:00"
    office.clock.advance(MINUTE)
    with pytest.raises(Conflict, match="is open: j1"):
        office.schedules.run_now("c1", ADA)
    assert texts(office, "ScheduleRunLaunched") == [
        "Schedule nightly launched job j1 for 2026-11-20 12:00 UTC, as ada@lab.example asked."
    ]


def test_run_asked_for_at_the_due_minute_is_that_run(office: JobSetup) -> None:
    """Both would launch a job of the same date and time."""
    schedule = created(office)
    to_due(office, schedule)
    office.schedules.run_now("c1", ADA)
    turn(office)
    assert runs(office) == [("launched", "j1")]
    assert jobs(office) == ["j1"]


@pytest.mark.parametrize("step", range(1, 7))
def test_guard_that_ends_at_any_step_launches_each_run_once(sqlite_url: str, step: int) -> None:
    """A process that ends right before or after a commit leaves nothing twice and nothing out."""
    with closing(FragileDatabase.open(sqlite_url)) as database:
        assert isinstance(database, FragileDatabase)
        office = JobSetup(priced(database))
        schedule = created(office)
        to_due(office, schedule, 1)  # one missed, one to launch
        fuse = CrashPoint(step)
        with pytest.raises(Killed):
            turn(JobSetup(database.of_process(fuse), clock=office.clock, ids=office.ids))
        turn(office)
        assert len(jobs(office)) == 1
        assert runs(office) == [("launched", jobs(office)[0]), ("missed", None)]
        for kind in ("ScheduleRunMissed", "ScheduleRunLaunched", "JobSubmitted"):
            assert kinds(office).count(kind) == 1, kind


def test_turn_of_a_replaced_daemon_writes_nothing(office: JobSetup) -> None:
    """Another one holds the lease."""
    schedule = created(office)
    to_due(office, schedule)
    lease = acquire(office.database, "daemon", "one", timedelta(seconds=30))
    assert lease is not None
    with pytest.raises(LeaseLost):
        SchedulesTurn(office.database, office.clock, lambda: office.it).run(replace(lease, epoch=lease.epoch - 1))
    assert runs(office) == []
    assert jobs(office) == []


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_token_that_is_over_launches_nothing_any_more(office: JobSetup, end: str) -> None:
    """A schedule lasts no longer than the right that it was created with."""
    authority = Authority(ADA.address, Role.OPERATOR, PERMISSIONS[Role.OPERATOR], Via.TOKEN, True, "t1")
    expires_at = NOW + DAY if end == "expired" else None
    token = ApiToken(
        "t1", "ci", ADA.address, Role.OPERATOR, True, PERMISSIONS[Role.OPERATOR], NOW, ADA.address, expires_at
    )
    with office.database.write() as connection:
        token_rows.add(connection, token, "digest", None)
    schedule, _ = office.schedules.create(order(), None, "api", authority)
    to_due(office, schedule)
    turn(office)
    assert runs(office) == [("launched", "j1")]
    settle(office, "j1", JobState.SUCCEEDED)
    if end == "revoked":
        with office.database.write() as connection:
            token_rows.revoke(connection, "t1", "root", office.clock.now())
    to_due(office, schedule, 1)
    turn(office)
    assert runs(office)[0] == ("refused", None)
    assert (
        f"The token t1, with which the schedule was created, {'was revoked' if end == 'revoked' else 'has expired'}"
        in (detail(office).runs[0].run.reason)
    )


def test_code_of_a_schedule_is_kept_for_its_runs(office: JobSetup) -> None:
    """It is older than a month when it is launched again, and no open job needs it in between."""
    content, sha256 = packed({"train.py": "print(1)"})
    office.archives = MemoryArchives()
    office.code.keep(sha256, io.BytesIO(content))
    schedule = created(office, template=template(code=JobCode(sha256, 100, 1)))
    office.clock.moment = NOW + 40 * DAY
    assert office.code.tidy() == 0
    turn(office)
    assert runs(office)[0][0] == "launched"
    settle(office, "j1", JobState.SUCCEEDED)
    office.schedules.end(schedule.id, ADA)
    assert office.code.tidy() == 1


def test_cost_is_of_the_runs_that_are_shown(office: JobSetup) -> None:
    """Nothing ran in this ledger, so that all of it costs nothing; the list has the last run."""
    tell(office)
    shown = detail(office, ID)
    assert [row.run.outcome for row in shown.runs] == [
        RunOutcome.SKIPPED,
        RunOutcome.LAUNCHED,
        RunOutcome.MISSED,
        RunOutcome.LAUNCHED,
    ]
    assert (shown.row.launched, shown.row.not_launched, shown.cost.whole) == (2, 2, True)
    with office.database.read() as connection:
        accrual = accrual_at(connection, office.clock.now())
        (row,) = listing.schedules_page(connection, accrual, RowFilters(), None, 10)
    assert row.last is not None
    assert row.last.run.outcome is RunOutcome.SKIPPED
