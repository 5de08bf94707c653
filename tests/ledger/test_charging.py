"""Charges and the daily roll-up, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, insert, select, update
from tests.rolled_up import roll_up_days
from tests.within import charge_due

from costguard.db.tables import charges, daily_owners, daily_spend, daily_spot, instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import prices
from costguard.ledger.charged import charges as charged
from costguard.ledger.charged.charging import Charged
from costguard.ledger.roll_up import SpanGroup, following
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
HOURLY = Money.of(1).nanos
PRICES = [
    Price(PriceKey(resource, "us-central1", model), unit, HOURLY * dollars, NOON - 90 * DAY, "test")
    for resource, unit, model, dollars in (
        ("n1:core", Unit.HOUR, STANDARD, 10),
        ("n1:ram", Unit.GIB_HOUR, STANDARD, 1),
        ("gpu:nvidia-tesla-t4", Unit.HOUR, STANDARD, 100),
        ("n1:core", Unit.HOUR, SPOT, 5),
        ("n1:ram", Unit.GIB_HOUR, SPOT, 1),
        ("disk:pd-ssd", Unit.GIB_MONTH, STANDARD, 743),  # the hours of March: a dollar an hour
    )
]
MACHINE, GPU, STORAGE, SECONDS = "machine_nanos", "gpu_nanos", "storage_nanos", "seconds"


class Ledger:
    """Writes what a test needs of the ledger, without a cloud."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._numbers = count(1)

    def vm(self) -> int:
        number = next(self._numbers)
        row = {
            "project": "p", "gce_id": str(number), "name": f"vm-{number}", "zone": "us-central1-a",
            "status": "running", "created_at": NOON, "machine_type": "n1-standard-1", "vcpus": 1,
            "memory_mib": 1024, "gpu_count": 0, "local_ssd_gib": 0, "provisioning_model": "standard",
            "labels": {}, "preset": "t4", "owner": "ann", "owner_source": "label", "job": "",
            "created_by": "", "fingerprint": "", "first_seen_at": NOON,
        }  # fmt: skip
        made: int = self.connection.execute(insert(instances).values(row).returning(instances.c.id)).scalar_one()
        return made

    def run(self, start: datetime, end: datetime | None = None, vm: int | None = None, **values: Any) -> int:
        row = {
            "instance_id": vm or self.vm(), "project": "p", "started_at": start, "ended_at": end,
            "end_reason": "stopped" if end else None, "zone": "us-central1-a", "machine_type": "n1-standard-1",
            "vcpus": 1, "memory_mib": 1024, "gpu_type": None, "gpu_count": 0, "local_ssd_gib": 0,
            "provisioning_model": "standard", "preset": "t4", "owner": "ann", "job": "", **values,
        }  # fmt: skip
        made: int = self.connection.execute(insert(lifetimes).values(row).returning(lifetimes.c.id)).scalar_one()
        return made

    def disk(self, start: datetime, end: datetime | None = None, vm: int | None = None, **values: Any) -> int:
        row = {
            "instance_id": vm or self.vm(), "project": "p", "name": "boot", "resource": "disk:pd-ssd", "size_mib": 1024,
            "zone": "us-central1-a", "started_at": start, "ended_at": end, "preset": "t4", "owner": "ann",
            "job": "", **values,
        }  # fmt: skip
        made: int = self.connection.execute(
            insert(storage_spans).values(row).returning(storage_spans.c.id)
        ).scalar_one()
        return made

    def end(self, lifetime: int, at: datetime, reason: str = "stopped") -> None:
        changed = update(lifetimes).where(lifetimes.c.id == lifetime)
        self.connection.execute(changed.values(ended_at=at, end_reason=reason))

    def days(self) -> dict[date, dict[str, int]]:
        """The roll-up of everybody, by day."""
        by_day: dict[date, dict[str, int]] = {}
        for row in self.connection.execute(select(daily_spend)):
            sums = by_day.setdefault(row.day, dict.fromkeys((MACHINE, GPU, STORAGE, SECONDS), 0))
            for name in sums:
                sums[name] += getattr(row, name)
        return by_day

    def total(self) -> int:
        return sum(row.amount_nanos for row in self.connection.execute(select(charges)))


@contextmanager
def _statements(connection: Connection) -> Iterator[list[str]]:
    """Collects the statements that are sent within the block."""
    sent: list[str] = []
    listener: Callable[..., None] = lambda _c, _cursor, statement, *_rest: sent.append(statement)  # noqa: E731
    event.listen(connection, "before_cursor_execute", listener)
    yield sent
    event.remove(connection, "before_cursor_execute", listener)


@pytest.fixture
def ledger(database: Database) -> Any:
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        yield Ledger(connection)


def test_a_run_is_charged_when_it_ends(ledger: Ledger) -> None:
    """The charges of a run that ended are stored whole, cut at midnight, and rolled up by day."""
    ledger.run(NOON, NOON + DAY, gpu_type="nvidia-tesla-t4", gpu_count=1)
    done = charge_due(ledger.connection, NOON + DAY + HOUR)
    assert done == Charged(1, 0, 6, frozenset({date(2026, 3, 10), date(2026, 3, 11)}), 0)
    half = {MACHINE: 12 * 11 * HOURLY, GPU: 12 * 100 * HOURLY, STORAGE: 0, SECONDS: 12 * 3600}
    assert ledger.days() == {date(2026, 3, 10): half, date(2026, 3, 11): half}


def test_an_open_run_is_charged_up_to_the_last_midnight(ledger: Ledger) -> None:
    """A running span is charged once a day; the rest of today is computed by readers."""
    ledger.run(NOON)
    ledger.disk(NOON)
    assert charge_due(ledger.connection, NOON + HOUR) == Charged()
    assert charge_due(ledger.connection, NOON + DAY).charges == 3
    assert charge_due(ledger.connection, NOON + DAY + HOUR) == Charged()
    assert ledger.days() == {
        date(2026, 3, 10): {MACHINE: 12 * 11 * HOURLY, GPU: 0, STORAGE: 12 * HOURLY, SECONDS: 12 * 3600}
    }


def test_a_second_midnight_adds_one_day(ledger: Ledger) -> None:
    """Stored charges stay as they are; only the day that went by is charged."""
    ledger.run(NOON)
    charge_due(ledger.connection, NOON + DAY)
    assert charge_due(ledger.connection, NOON + 2 * DAY).days == {date(2026, 3, 11)}
    assert ledger.total() == 36 * 11 * HOURLY


def test_many_equal_vms_are_charged_like_one(ledger: Ledger) -> None:
    """Charging alike VMs together gives each of them what it would get alone."""
    for _ in range(30):
        ledger.run(NOON)
    assert charge_due(ledger.connection, NOON + DAY).charges == 60
    assert ledger.total() == 30 * 12 * 11 * HOURLY
    assert {row.span_id for row in ledger.connection.execute(select(charges))} == set(range(1, 31))


def test_charging_anew_changes_nothing(ledger: Ledger) -> None:
    """A span that is marked to be charged again ends with the same charges and the same days."""
    ledger.run(NOON, NOON + 2 * DAY)
    ledger.disk(NOON)
    charge_due(ledger.connection, NOON + 3 * DAY)
    before = ledger.days(), ledger.total()
    ledger.connection.execute(update(lifetimes).values(charged_to=None))
    ledger.connection.execute(update(storage_spans).values(charged_to=None))
    charge_due(ledger.connection, NOON + 3 * DAY)
    assert (ledger.days(), ledger.total()) == before


@pytest.mark.parametrize("most_days", [1, 5, 100])
def test_spans_are_charged_in_batches_like_all_at_once(ledger: Ledger, most_days: int) -> None:
    """The charges, counts and days are the same however few fit into memory at a time."""
    for number in range(9):
        ledger.run(NOON - number * HOUR, NOON + DAY if number % 2 else None)
        ledger.disk(NOON - number * DAY, NOON + DAY if number % 3 else None)
    done = charge_due(ledger.connection, NOON + 3 * DAY, most_days)
    before = ledger.days(), ledger.total()
    assert (done.lifetimes, done.storage, done.days) == (9, 9, frozenset(ledger.days()))
    assert done.charges == ledger.connection.scalar(select(func.count()).select_from(charges))
    ledger.connection.execute(update(lifetimes).values(charged_to=None))
    ledger.connection.execute(update(storage_spans).values(charged_to=None))
    assert charge_due(ledger.connection, NOON + 3 * DAY) == done
    assert (ledger.days(), ledger.total()) == before


def test_runs_and_storage_of_one_owner_are_charged_together(ledger: Ledger) -> None:
    """They add to the same daily sums, which are then written once."""
    owners = {}
    for owner in ("bob", "ann", "bob", "ann"):
        owners["lifetime", ledger.run(NOON, owner=owner)] = owner
        owners["storage", ledger.disk(NOON, NOON + HOUR, owner=owner)] = owner
    due = charged.due_ids(ledger.connection, NOON + DAY)
    assert [owners[span.kind, span.id] for span in due] == 4 * ["ann"] + 4 * ["bob"]
    charge_due(ledger.connection, NOON + DAY, most_days=4)
    days = {row.owner: row.machine_nanos for row in ledger.connection.execute(select(daily_owners))}
    assert days == {"ann": 2 * 12 * 11 * HOURLY, "bob": 2 * 12 * 11 * HOURLY}


def test_a_run_that_turns_out_shorter_is_charged_less(ledger: Ledger) -> None:
    """An operation may tell late that a VM stopped before a midnight that was charged already."""
    run = ledger.run(NOON)
    charge_due(ledger.connection, NOON + 3 * DAY)
    ledger.end(run, NOON + HOUR)
    assert charge_due(ledger.connection, NOON + 3 * DAY).days >= {date(2026, 3, 11), date(2026, 3, 12)}
    assert list(ledger.days()) == [date(2026, 3, 10)]
    assert ledger.total() == 11 * HOURLY


def test_midnight_within_a_free_first_minute_is_taken_back(ledger: Ledger) -> None:
    """A Spot VM that is preempted in its first minute is free even when midnight has charged its first seconds."""
    run = ledger.run(datetime(2026, 3, 10, 23, 59, 50, tzinfo=UTC), provisioning_model="spot")
    charge_due(ledger.connection, datetime(2026, 3, 11, 0, 0, 5, tzinfo=UTC))
    assert ledger.total() > 0
    ledger.end(run, datetime(2026, 3, 11, 0, 0, 20, tzinfo=UTC), "preempted")
    charge_due(ledger.connection, datetime(2026, 3, 11, 0, 0, 30, tzinfo=UTC))
    assert (ledger.total(), ledger.days()) == (0, {})


def test_the_minimum_is_charged_at_once(ledger: Ledger) -> None:
    """A run of five seconds is charged its minute when it ends, though the minute is not over."""
    ledger.run(NOON, NOON + 5 * SECOND)
    charge_due(ledger.connection, NOON + 6 * SECOND)
    assert ledger.days()[NOON.date()][SECONDS] == 60
    assert charge_due(ledger.connection, NOON + HOUR) == Charged()


def test_the_roll_up_knows_whose_money_it_is(ledger: Ledger) -> None:
    """Days are rolled up by project, preset, owner, job and model; storage counts as standard, anyone who runs."""
    vm = ledger.vm()
    ledger.run(NOON, NOON + HOUR, vm, provisioning_model="spot", owner="bob", job="j1")
    ledger.disk(NOON, NOON + HOUR, vm, owner="bob", job="j1")
    charge_due(ledger.connection, NOON + 2 * HOUR)
    rows = ledger.connection.execute(select(daily_spend).order_by(daily_spend.c.provisioning_model)).all()
    assert [(row.project, row.preset, row.owner, row.job, row.provisioning_model) for row in rows] == [
        ("p", "t4", "bob", "j1", "spot"),
        ("p", "t4", "bob", "j1", "standard"),
    ]
    assert [(row.machine_nanos, row.storage_nanos, row.seconds) for row in rows] == [
        (6 * HOURLY, 0, 3600),
        (0, HOURLY, 0),
    ]


def test_days_can_be_rolled_up_anew_for_a_new_owner(ledger: Ledger) -> None:
    """When a span changes hands, its days follow."""
    ledger.run(NOON, NOON + HOUR)
    charge_due(ledger.connection, NOON + DAY)
    ledger.connection.execute(update(lifetimes).values(owner="bob"))
    roll_up_days(ledger.connection, {NOON.date()})
    assert ledger.connection.execute(select(daily_spend.c.owner)).scalars().all() == ["bob"]


def test_days_follow_a_run_that_is_written_with_another_owner(ledger: Ledger) -> None:
    """They follow those alone that get another owner: of the others no charge is read."""
    runs = [ledger.run(NOON, NOON + HOUR, provisioning_model="spot") for _ in range(2)]
    charge_due(ledger.connection, NOON + DAY)
    ann, bob = (SpanGroup("p", Attribution("t4", owner, ""), "spot") for owner in ("ann", "bob"))
    with (
        _statements(ledger.connection) as quiet,
        following(ledger.connection, lifetimes, runs, dict.fromkeys(runs, ann)),
    ):
        pass
    assert not [statement for statement in quiet if "charges" in statement]
    with following(ledger.connection, lifetimes, runs, {runs[0]: bob, runs[1]: ann}):
        ledger.connection.execute(update(lifetimes).where(lifetimes.c.id == runs[0]).values(owner="bob"))
    for table, column in ((daily_spend, "seconds"), (daily_owners, "seconds"), (daily_spot, "amount_nanos")):
        sums = {row.owner: getattr(row, column) for row in ledger.connection.execute(select(table))}
        assert sums["ann"] == sums["bob"] > 0


def test_what_cannot_be_priced_is_loud(ledger: Ledger) -> None:
    """The span says why, an event is appended once, and the rest of the VM is charged."""
    ledger.run(NOON, NOON + HOUR, gpu_type="nvidia-tesla-p4", gpu_count=1)
    done = charge_due(ledger.connection, NOON + DAY)
    assert (done.unpriced, ledger.total()) == (1, 11 * HOURLY)
    (reason,) = ledger.connection.execute(select(lifetimes.c.unpriced)).scalars()
    assert "gpu:nvidia-tesla-p4 (on-demand) in us-central1" in reason
    (stored,) = audit_log.read(ledger.connection)
    assert stored.event.kind == "SpanUnpriced"
    assert stored.event.text.startswith("Not all of vm-1 could be priced.")
    assert charge_due(ledger.connection, NOON + DAY) == Charged()


def test_a_late_price_charges_what_had_none(ledger: Ledger) -> None:
    """Once a price is known, the unpriced are charged whole, and are quiet."""
    ledger.run(NOON, NOON + HOUR, gpu_type="nvidia-tesla-p4", gpu_count=1)
    charge_due(ledger.connection, NOON + DAY)
    late = replace(PRICES[2], key=replace(PRICES[2].key, resource="gpu:nvidia-tesla-p4"), in_force_from=NOON + DAY)
    prices.add(ledger.connection, [late], NOON + DAY)
    assert charged.recharge_unpriced(ledger.connection) == 1
    charge_due(ledger.connection, NOON + DAY)
    assert ledger.total() == 111 * HOURLY
    assert ledger.connection.execute(select(lifetimes.c.unpriced)).scalars().all() == [""]


def test_a_machine_type_that_becomes_known_charges_all_of_the_run(ledger: Ledger) -> None:
    """The charge that midnight could not make is made at the next one, from the start of the run on."""
    ledger.run(NOON, vcpus=0, memory_mib=0)
    assert charge_due(ledger.connection, NOON + DAY).unpriced == 1
    ledger.connection.execute(update(lifetimes).values(vcpus=1, memory_mib=1024))
    assert charge_due(ledger.connection, NOON + 2 * DAY).unpriced == 0
    assert ledger.total() == 36 * 11 * HOURLY


def test_a_price_from_the_past_charges_from_its_day_on(ledger: Ledger) -> None:
    """Days before the new price keep their charges; from its moment on each second costs the new rate."""
    ledger.run(NOON)
    ledger.run(NOON, NOON + DAY)
    charge_due(ledger.connection, NOON + 3 * DAY)
    change = NOON + 2 * DAY
    prices.add(ledger.connection, [replace(PRICES[0], rate_nanos=20 * HOURLY, in_force_from=change)], NOON + 3 * DAY)
    assert charged.recharge_since(ledger.connection, change, "us-central1") == 1
    assert charge_due(ledger.connection, NOON + 3 * DAY).days == {date(2026, 3, 12)}
    assert ledger.total() == (60 + 24) * 11 * HOURLY + 12 * 10 * HOURLY
    assert charged.recharge_since(ledger.connection, change, "europe-west4") == 0


def test_a_pass_with_nothing_due_reads_a_few_rows_by_index(database: Database) -> None:
    """The pass writes nothing then, and no prices are loaded."""
    with database.write() as connection:
        ledger = Ledger(connection)
        prices.add(connection, PRICES, NOON)
        ledger.run(NOON - DAY, NOON - HOUR)
        charge_due(connection, NOON)
        with _statements(connection) as sent:
            assert charge_due(connection, NOON + HOUR) == Charged()
    selects = [statement for statement in sent if not statement.startswith("SET LOCAL")]
    assert len(selects) == 1
    assert selects[0].startswith("SELECT kind, id, days ")
