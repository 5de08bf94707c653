"""What Spot saved, from charges and from what runs, and what keeps cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, insert
from tests.api import rows
from tests.api.rows import NOW
from tests.engine import reminder_rows
from tests.store import job_rows

from costguard.engine.accrual import accrual_at, book_of
from costguard.engine.acting.kept import kept
from costguard.engine.charging import charge_due
from costguard.engine.spot import saved_by_spot
from costguard.model.budget import Scope
from costguard.model.money import Money, Priced
from costguard.policy.spot import SpotSaving
from costguard.store import tables
from costguard.store.spot import lost_to_preemptions
from costguard.store.transaction import Database

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
    # A run that is charged anew is told anew, though its day was asked for before.
    with database.write() as connection:
        connection.execute(
            tables.lifetimes.update().where(tables.lifetimes.c.ended_at.is_not(None)).values(ended_at=NOW - 32 * HOUR)
        )
        charge_due(connection, NOW)
    assert saved(database).cost == SPOT.over(28 * HOUR)


def keep(connection: Connection, subject: str, until: datetime, at: datetime, due_at: datetime | None = None) -> None:
    instance_id = int(subject.split(":")[1])
    asked = {"asked": "keep", "key": f"{subject}/{at}", "due_at": due_at}
    request_id = reminder_rows.request(connection, instance_id, subject, **asked)
    row = {"subject": subject, "instance_id": instance_id, "until": until, "by": "bob", "at": at, "reason": ""}
    connection.execute(insert(tables.keeps).values(request_id=request_id, **row))


def test_what_has_no_on_demand_price_is_left_out_and_named(database: Database) -> None:
    """Of both amounts, so that it neither saves nor costs."""
    with database.write() as connection:
        rates = {key: rate for key, rate in rows.RATES.items() if key[:2] != ("gpu:nvidia-tesla-t4", "standard")}
        rows.prices(connection, rates)
        one = rows.instance(connection, "one", provisioning_model="spot")
        rows.lifetime(connection, one, NOW - 10 * HOUR, provisioning_model="spot")
    found = saved(database)
    assert (found.cost, found.on_demand) == (Money.of("0.55"), Money.of("1.80"))
    assert found.unpriced == ("gpu:nvidia-tesla-t4 in us-central1",)


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
        found = kept(connection, book_of(connection), NOW, NOW - 6 * HOUR, NOW)
        earlier = kept(connection, book_of(connection), NOW, NOW - DAY, NOW - 6 * HOUR)
    assert [(each.keep.name, each.cost) for each in found] == [
        ("ended", Priced(ON_DEMAND.over(2 * HOUR))),
        ("twice", Priced(ON_DEMAND.over(2 * HOUR))),
    ]
    assert {each.keep.name: each.cost for each in earlier} == {
        "early": Priced(ON_DEMAND.over(3 * HOUR)),
        "twice": Priced(ON_DEMAND.over(5 * HOUR)),
    }


def test_work_lost_to_preemptions_is_added_up(database: Database) -> None:
    """Of the days and the scope; what other ends than preemptions lost is not Spot's."""
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
