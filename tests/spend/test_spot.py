"""The savings of Spot are read from charges and from what runs, and the cost of keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias

from sqlalchemy import Connection, insert, select, update
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.reminders import reminder_rows
from tests.within import charge_due

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at, book_of
from costguard.ledger.charged.charges import recharge_since
from costguard.ledger.roll_up import following
from costguard.model.budget import Scope
from costguard.model.money import Money, Priced
from costguard.spend.saved import kept, saved_by_spot
from costguard.spend.spot import SpotSaving
from costguard.spend.spot_rows import charged, lost_to_preemptions

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SPOT, ON_DEMAND = Money.of("0.165"), Money.of("0.53")  # an hour of an n1-standard-4 with a T4
TODAY = NOW.date()


def saved(database: Database, back: int = 9, scope: Scope = Scope()) -> SpotSaving:
    with database.read() as connection:
        return saved_by_spot(connection, accrual_at(connection, NOW), TODAY - back * DAY, TODAY, scope)


def test_spot_saves_what_the_same_seconds_cost_on_demand(database: Database) -> None:
    """Charged and not charged yet, of the days and the scope alone; what is on demand saves nothing."""
    with database.write() as connection:
        rows.prices(connection)
        one = rows.instance(connection, "one", provisioning_model="spot")
        rows.lifetime(connection, one, NOW - 300 * DAY, ended_at=NOW - 299 * DAY, provisioning_model="spot")
        two = rows.instance(connection, "two", project="else")
        rows.lifetime(connection, one, NOW - 40 * HOUR, ended_at=NOW - 30 * HOUR, provisioning_model="spot")
        rows.lifetime(connection, one, NOW - 20 * HOUR, provisioning_model="spot", preset="a100")
        rows.lifetime(connection, two, NOW - 20 * HOUR)
        rows.storage(connection, one, NOW - 40 * HOUR)
    before = saved(database)
    assert (before.cost, before.on_demand) == (SPOT.over(30 * HOUR), ON_DEMAND.over(30 * HOUR))
    assert (before.saved, before.percent) == (Money.of("10.95"), 68)
    with database.write() as connection:
        charge_due(connection, NOW)
    assert saved(database) == before == saved(database)
    assert saved(database, scope=Scope(preset="a100")).cost == SPOT.over(20 * HOUR)
    assert saved(database, scope=Scope(project="else")) == SpotSaving()
    assert saved(database, back=0).cost == SPOT.over(12 * HOUR)
    assert saved(database, back=364).cost == before.cost + SPOT.over(DAY)
    # A run that is charged again is read again, though its day was read before.
    with database.write() as connection:
        connection.execute(
            tables.lifetimes.update()
            .where(tables.lifetimes.c.ended_at > NOW - 2 * DAY)
            .values(ended_at=NOW - 32 * HOUR)
        )
        charge_due(connection, NOW)
    assert saved(database).cost == SPOT.over(28 * HOUR)


# Months, a fortnight, and the last days one by one.
PERIODS = [(TODAY - 60 * DAY, TODAY - 20 * DAY), (TODAY - 19 * DAY, TODAY - 6 * DAY)]
PERIODS += [(TODAY - back * DAY, TODAY - back * DAY) for back in range(5, -1, -1)]
SpotSums: TypeAlias = dict[tuple[date, int], tuple[Fraction, Money]]


def summed_singly(connection: Connection, scopes: Sequence[Scope]) -> list[SpotSums]:
    """Returns what single charges say of each scope, without the database's sums."""
    is_spot = tables.prices.c.provisioning_model == "spot"
    spot_ids = set(connection.execute(select(tables.prices.c.id).where(is_spot)).scalars())
    runs = {row.id: row for row in connection.execute(select(tables.lifetimes))}
    answers: list[SpotSums] = [{} for _ in scopes]
    for row in connection.execute(select(tables.charges).where(tables.charges.c.span == "lifetime")):
        run = runs[row.span_id]
        (begin,) = (first for first, last in PERIODS if first <= row.day <= last)
        for scope, answer in zip(scopes, answers, strict=True):
            if row.price_id in spot_ids and scope.holds(run.project, run.preset, run.owner, run.job):
                used, cost = answer.get((begin, row.price_id), (Fraction(0), Money()))
                used += Fraction(row.seconds * row.quantity_millis, 1000)
                answer[begin, row.price_id] = used, cost + Money(row.amount_nanos)
    return answers


def summed_together(connection: Connection, scope: Scope) -> SpotSums:
    return {(use.day, use.price_id): (use.amount, use.cost) for use in charged(connection, PERIODS, scope)}


def test_the_roll_up_says_what_single_charges_say(database: Database) -> None:
    """The sums are equal to the nano-dollar, for every scope: with gaps, after midnights, an earlier end, a late price
    and a new owner.
    """
    runs = tables.lifetimes
    with database.write() as connection:
        rows.prices(connection)
        for number in range(12):
            vm = rows.instance(connection, f"vm-{number}", project=("lab", "yard")[number % 2])
            whose = {
                "preset": ("t4", "a100", "other")[number % 3],
                "owner": ("ada@lab.example", "", "bob")[number // 4],
                "job": "j1" if number in (5, 8) else "",
                "provisioning_model": "standard" if number in (3, 4) else "spot",
            }
            for back in (29 + number, 5, 2):
                start = NOW - back * DAY + number * timedelta(hours=1, seconds=7)
                lasted = None if back == 2 and number % 4 == 1 else timedelta(seconds=17 + 9001 * number)
                rows.lifetime(connection, vm, start, ended_at=lasted and start + lasted, **whose)
            rows.storage(connection, vm, NOW - 2 * DAY)
    late: dict[str, Any] = {
        "resource": "n1:core",
        "region": "us-central1",
        "provisioning_model": "spot",
        "unit": "h",
        "source": "late",
    }
    late |= {"rate_nanos": 12_345_678, "in_force_from": NOW - 5 * DAY, "recorded_at": NOW}
    open_ones = update(runs).where(runs.c.ended_at.is_(None), runs.c.id % 2 == 0)
    changes: list[Callable[[Connection], object]] = [
        lambda connection: charge_due(connection, NOW - DAY),
        lambda connection: None,
        lambda connection: connection.execute(open_ones.values(ended_at=NOW - 30 * HOUR)),
        lambda connection: connection.execute(update(runs).where(runs.c.id == 8).values(ended_at=runs.c.started_at)),
        lambda connection: connection.execute(insert(tables.prices).values(late)),
        lambda connection: recharge_since(connection, NOW - 5 * DAY, "us-central1"),
        lambda connection: _give(connection, range(1, 9), "cy"),
    ]
    scopes = [Scope(), Scope(project="lab"), Scope(project="yard"), Scope(preset="a100"), Scope(job="j1")]
    scopes += [Scope(owner=name) for name in ("ada@lab.example", "", "bob", "cy")]
    scopes += [Scope("lab", "t4", "bob"), Scope(preset="other", job="j1"), Scope("yard", "other")]
    seen = []
    for change in changes:
        with database.write() as connection:
            change(connection)
            charge_due(connection, NOW)
        with database.read() as connection:
            singly = summed_singly(connection, scopes)
            assert [summed_together(connection, scope) for scope in scopes] == singly
            assert all(singly[:5])
        seen += [singly] if singly not in seen else []
    assert len(seen) == 5


def _give(connection: Connection, run_ids: range, owner: str) -> None:
    """The runs change hands, as they do with their VMs."""
    with following(connection, tables.lifetimes, run_ids):
        connection.execute(update(tables.lifetimes).where(tables.lifetimes.c.id.in_(run_ids)).values(owner=owner))


def keep(connection: Connection, subject: str, until: datetime, at: datetime, due_at: datetime | None = None) -> None:
    instance_id = int(subject.split(":")[1])
    request = {"kind": "keep", "key": f"{subject}/{at}", "due_at": due_at}
    request_id = reminder_rows.request(connection, instance_id, subject, **request)
    row = {"subject": subject, "instance_id": instance_id, "until": until, "by": "bob", "at": at, "reason": ""}
    connection.execute(insert(tables.keeps).values(request_id=request_id, **row))


def test_what_has_no_on_demand_price_is_left_out_and_named(database: Database) -> None:
    """The usage is out of both amounts, so that it neither saves nor costs."""
    with database.write() as connection:
        rates = {key: rate for key, rate in rows.RATES.items() if key[:2] != ("gpu:nvidia-tesla-t4", "standard")}
        rows.prices(connection, rates)
        one = rows.instance(connection, "one", provisioning_model="spot")
        rows.lifetime(connection, one, NOW - 10 * HOUR, provisioning_model="spot")
    saving = saved(database)
    assert (saving.cost, saving.on_demand) == (Money.of("0.55"), Money.of("1.80"))
    assert saving.unpriced == ("gpu:nvidia-tesla-t4 in us-central1",)


def test_a_keep_costs_from_when_it_would_have_been_due(database: Database) -> None:
    """Until it runs out, the machine ends, or now; a second keep costs from where the first ran out."""
    with database.write() as connection:
        rows.prices(connection)
        vms = [rows.instance(connection, name) for name in ("early", "twice", "ended")]
        runs = [
            rows.lifetime(connection, vm, NOW - 20 * HOUR, ended_at=NOW - HOUR if vm == vms[2] else None) for vm in vms
        ]
        early, twice, ended = (f"run:{vm}:{run}" for vm, run in zip(vms, runs, strict=True))
        keep(connection, early, NOW + HOUR, at=NOW - 9 * HOUR, due_at=NOW - 3 * HOUR)
        keep(connection, twice, NOW - 4 * HOUR, at=NOW - 9 * HOUR)
        keep(connection, twice, NOW - 2 * HOUR, at=NOW - 5 * HOUR)
        keep(connection, ended, NOW + HOUR, at=NOW - 3 * HOUR)
        keep(connection, f"rest:{vms[0]}:{runs[0]}", NOW + HOUR, at=NOW - HOUR)
    with database.read() as connection:
        reports = kept(connection, book_of(connection), NOW, NOW - 6 * HOUR, NOW)
        earlier = kept(connection, book_of(connection), NOW, NOW - DAY, NOW - 6 * HOUR)
    assert [(report.keep.name, report.cost) for report in reports] == [
        ("ended", Priced(ON_DEMAND.over(2 * HOUR))),
        ("twice", Priced(ON_DEMAND.over(2 * HOUR))),
    ]
    assert {report.keep.name: report.cost for report in earlier} == {
        "early": Priced(ON_DEMAND.over(3 * HOUR)),
        "twice": Priced(ON_DEMAND.over(5 * HOUR)),
    }


def test_work_lost_to_preemptions_is_added_up(database: Database) -> None:
    """The work is of the days and the scope; losses by other ends than preemptions are not Spot's."""
    with database.write() as connection:
        job_rows.added(connection)
        made = job_rows.attempt(connection)
        for run, (outcome, at) in enumerate((("preempted", NOW), ("crashed", NOW), ("preempted", NOW - 2 * DAY))):
            row = {"attempt_id": made.id, "run": run, "job_id": "j7k2m9q4", "outcome": outcome, "happened_at": at}
            row |= {"noticed_at": at, "noticed_by": "agent", "lost_nanos": 10**9}
            connection.execute(insert(tables.interruptions).values(row))
    with database.read() as connection:
        assert lost_to_preemptions(connection, TODAY - DAY, TODAY, Scope()) == Money.of(1)
        assert lost_to_preemptions(connection, TODAY - 2 * DAY, TODAY, Scope(preset="t4")) == Money.of(2)
        assert lost_to_preemptions(connection, TODAY - 2 * DAY, TODAY, Scope(owner="bob")) == Money()
