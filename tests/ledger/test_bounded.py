"""A large pass in many short transactions: others write in between, and a crash between any two loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, select
from tests.accrued import assert_totals_hold
from tests.builders import A100, PROJECT, T4, at, observation, operation, seen
from tests.crashing import CrashPoint, Killed, fragile_database
from tests.fakes import FakeCloud, HandClock
from tests.ledger.ledger_rows import ledger_rows
from tests.rolled_up import roll_up_days, sums

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.tables import charges, instances
from costguard.db.transaction import Database
from costguard.errors import LeaseLost
from costguard.ledger import prices, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import close_account, record
from costguard.ledger.running import running_totals
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, SeenInstance, Status
from costguard.model.money import Money
from costguard.model.observation import Observation
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.spend import spend

BELONGING = Belonging((), OwnerRules(domain="example.com"))
TTL = timedelta(seconds=30)
FIRST, SECOND, NOW = at("2026-11-02T12:00:00"), at("2026-11-05T12:00:00"), at("2026-11-05T12:01:00")


def _prices() -> list[Price]:
    resources = [("a2:core", Unit.HOUR), ("a2:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-a100", Unit.HOUR)]
    resources += [("n1:core", Unit.HOUR), ("n1:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-t4", Unit.HOUR)]
    models = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)
    stored = [
        Price(PriceKey(resource, "us-central1", model), unit, Money.of(1 + number).nanos, at("00:00"), "test")
        for number, (resource, unit) in enumerate(resources)
        for model in models
    ]
    disk = PriceKey("disk:pd-balanced", "us-central1", ProvisioningModel.STANDARD)
    return [*stored, Price(disk, Unit.GIB_MONTH, Money.of(743).nanos, at("00:00"), "test")]


def _vm(number: int, **given: Any) -> SeenInstance:
    model = ProvisioningModel.SPOT if number % 3 == 0 else ProvisioningModel.STANDARD
    values = {"shape": T4 if number % 2 else A100, "provisioning_model": model, "fingerprint": f"f{number}"}
    disk = AttachedDisk(f"vm-{number}", 100, "pd-balanced", at("09:59"), boot=True, auto_delete=True)
    labels = {"owner": f"person-{number % 3}"}
    key = InstanceKey(PROJECT, str(1000 + number))
    return seen(key=key, name=f"vm-{number}", labels=labels, disks=(disk,), **{**values, **given})


_OPERATIONS = {
    (kind, number): operation(kind, begun, ended, target_id=str(1000 + number), target_name=f"vm-{number}")
    for kind, number, begun, ended in (
        *(("insert", number, "09:59", "10:00") for number in range(8)),
        ("delete", 7, "10:20", "10:21"),
        ("stop", 1, "2026-11-04T11:00:00", "2026-11-04T11:01:00"),
        ("delete", 2, "2026-11-03T11:00:00", "2026-11-03T11:01:00"),
        ("insert", 8, "2026-11-04T11:00:00", "2026-11-04T11:01:00"),
    )
}


def first_look() -> Observation:
    """Seven VMs that run, and one that is gone already."""
    operations = tuple(op for op in _OPERATIONS.values() if op.inserted_at < FIRST)
    return observation(*map(_vm, range(7)), read="2026-11-02T12:00:00", operations=operations)


def second_look() -> Observation:
    """Three days later: one stopped, one was deleted, one vanished, one changed hands, one is new."""
    operations = tuple(op for op in _OPERATIONS.values() if op.inserted_at >= FIRST)
    stopped = _vm(1, status=Status.STOPPED, last_stopped_at=at("2026-11-04T11:01:00"), fingerprint="stopped")
    changed = replace(_vm(3), labels={"owner": "new"}, fingerprint="new")
    new = _vm(8, created_at=at("2026-11-04T11:00:00"), started="2026-11-04T11:01:00")
    listed = (_vm(0), stopped, changed, _vm(4), _vm(5), new)  # 2 and 6 are not there
    return observation(*listed, read="2026-11-05T12:00:00", operations=operations)


def _cloud() -> FakeCloud:
    cloud = FakeCloud()
    cloud.gone = {"1006"}
    return cloud


def a_pass(database: Database, look: Observation, now: datetime, fence: Lease | None = None) -> None:
    """Does what the passes do, two or so rows in each transaction."""
    record(database, _cloud(), look, BELONGING, fence, at_once=2)
    charge_due(database, now, fence, most_days=2)
    running_totals.catch_up(database, now, fence, at_once=2)


def _close(database: Database, now: datetime, fence: Lease | None = None) -> None:
    """The project is taken out of the settings."""
    with database.read() as connection:
        look = projects.last_look(connection, PROJECT)
    if look is not None:
        close_account(database, look, BELONGING, fence, at_once=2)
    charge_due(database, now, fence, most_days=2)


Story = Sequence[Callable[[Database], None]]
STORY: Story = (
    lambda database: a_pass(database, first_look(), FIRST),
    lambda database: a_pass(database, second_look(), NOW),
    lambda database: _close(database, NOW),
)


def _with_prices(database: Database) -> None:
    with database.write() as connection:
        prices.add(connection, _prices(), at("00:00"))


def _ledger_of(database: Database) -> tuple[dict[str, list[str]], dict[str, list[tuple[Any, ...]]]]:
    with database.read() as connection:
        daily = sums(connection)
    for name in ("daily_spot", "daily_spot_totals"):  # which id a price has depends on the database
        daily[name] = [tuple(row[:-3]) + tuple(row[-2:]) for row in daily[name]]
    return ledger_rows(database), {name: sorted(rows) for name, rows in daily.items()}


@pytest.fixture
def undisturbed(sqlite_template: Path, tmp_path: Path) -> Any:
    """Returns the ledger after each chapter of the story, when nothing goes wrong."""
    path = tmp_path / "undisturbed.db"
    shutil.copy(sqlite_template, path)
    with closing(Database.open(f"sqlite:///{path}")) as database:
        _with_prices(database)
        chapters = []
        for chapter in STORY:
            chapter(database)
            chapters.append(_ledger_of(database))
        return chapters


def _agree(database: Database, now: datetime) -> None:
    """Daily and running totals are what charges and spans add up to; nobody is gone who was not found so."""
    with database.read() as connection:
        assert_totals_hold(connection, now)
        kept = sums(connection)
        gone = set(connection.scalars(select(instances.c.gce_id).where(instances.c.gone_at.is_not(None))))
    again: list[object] = []
    with suppress(_Undone), database.write() as connection:
        roll_up_days(connection, set(connection.scalars(select(charges.c.day))))
        again.append(sums(connection))
        raise _Undone
    assert again == [kept]
    assert gone <= {"1002", "1006", "1007"}


def _same(tables_held: Any, undisturbed: Any) -> None:
    """Table by table, so that a failure shows rows."""
    for held, expected in zip(tables_held, undisturbed, strict=True):
        for name, rows in held.items():
            assert rows == expected[name], name


class _Undone(Exception):
    """Takes back what was only looked at."""


@pytest.mark.parametrize(("chapter", "every"), [(0, 1), (1, 3)])
def test_ended_between_any_two_transactions(
    sqlite_template: Path, tmp_path: Path, undisturbed: Any, chapter: int, every: int
) -> None:
    """Wherever the process ends, sums and charges agree, and the next pass makes the ledger what it would have been.

    The second chapter, which is longer, ends at one step of three: `test_ended_again_and_again` has its other ones.
    """
    begun = tmp_path / "begun.db"
    shutil.copy(sqlite_template, begun)
    with closing(Database.open(f"sqlite:///{begun}")) as database:
        _with_prices(database)
        for earlier in STORY[:chapter]:
            earlier(database)
    step, reached, held = 0, True, b""
    while reached:
        step += every
        path = tmp_path / f"step-{step}.db"
        shutil.copy(begun, path)
        reached = _killed(f"sqlite:///{path}", STORY[chapter], step)
        before, held = held, path.read_bytes()
        if held == before:
            continue  # nothing was committed since the step before: the same would come of it
        with closing(Database.open(f"sqlite:///{path}")) as database:
            _agree(database, NOW)
            STORY[chapter](database)
            _same(_ledger_of(database), undisturbed[chapter])
        path.unlink()
    assert step > 30


def _killed(url: str, chapter: Callable[[Database], None], step: int) -> bool:
    with fragile_database(url, CrashPoint(step)) as fragile:
        try:
            chapter(fragile)
        except Killed:
            return True
    return False


def test_ended_again_and_again(database: Database, database_url: str, undisturbed: Any) -> None:
    """Each process ends one step later than the one before: the story still comes to the same end."""
    _with_prices(database)
    for number, chapter in enumerate(STORY):
        step = 1
        while _killed(database_url, chapter, step):
            step += 1
            if step % 5 == 0 and number < 2:
                _agree(database, NOW)
        assert step > 3
        if number < 2:
            _agree(database, NOW)
            _same(_ledger_of(database), undisturbed[number])
    rows, daily = _ledger_of(database)
    assert (rows["lifetimes"], rows["charges"], daily) == (
        undisturbed[2][0]["lifetimes"],
        undisturbed[2][0]["charges"],
        undisturbed[2][1],
    )


class _Watched(Database):
    """Does something before each transaction that writes, and after its commit."""

    between: Callable[[], object] = staticmethod(lambda: None)

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        self.between()
        with super().write(fence) as connection:
            yield connection
        self.between()


@contextmanager
def _watched(url: str, between: Callable[[], object]) -> Iterator[Database]:
    with closing(_Watched.open(url)) as database:
        assert isinstance(database, _Watched)
        database.between = between
        yield database


def test_spend_stays_what_it_is_while_charges_are_stored(database: Database, database_url: str) -> None:
    """The stored and the unstored part are counted once each: to the cent the same between any two transactions."""
    _with_prices(database)
    record(database, _cloud(), first_look(), BELONGING, None)
    totals = _totals_while_charging(database, database_url, FIRST + timedelta(days=1))
    assert len({str(total) for total in totals}) == 1
    assert Money() not in totals


def test_what_ended_long_ago_counts_before_it_is_charged(database: Database, database_url: str) -> None:
    """Uncharged spans count however long ago they ended: charging them leaves the total as it was, to the cent."""
    _with_prices(database)
    record(database, _cloud(), first_look(), BELONGING, None)
    record(database, _cloud(), second_look(), BELONGING, None)
    totals = _totals_while_charging(database, database_url, NOW)
    assert len({str(total) for total in totals}) == 1
    assert Money() not in totals


def _totals_while_charging(database: Database, url: str, now: datetime) -> list[Money]:
    totals: list[Money] = []

    def total() -> None:
        with database.read() as connection:
            totals.append(spend(connection, accrual_at(connection, now), FIRST.date(), now.date(), []).total.total)

    with _watched(url, total) as watched:
        assert charge_due(watched, now, most_days=2).charges > 20
    return totals


def test_another_daemon_takes_over_between_two_transactions(
    database: Database, database_url: str, undisturbed: Any
) -> None:
    """The first one writes nothing more from then on; the second completes the look, and nothing is there twice."""
    _with_prices(database)
    moment = at("12:00")
    fence = leases.acquire(database, "daemon", "first", TTL, moment)
    turns = 0

    def take_over() -> None:
        nonlocal turns
        turns += 1
        if turns == 6:
            leases.acquire(database, "daemon", "second", TTL, moment + 2 * TTL)

    with _watched(database_url, take_over) as watched, pytest.raises(LeaseLost):
        a_pass(watched, first_look(), FIRST, fence)
    assert turns == 7
    with database.read() as connection:
        look = projects.last_look(connection, PROJECT)
        some = len(connection.execute(select(instances.c.id)).all())
    assert look is not None
    assert look.last_complete_at is None
    assert look.operations_through_at is None
    assert 0 < some < 8
    _agree(database, NOW)
    second = leases.acquire(database, "daemon", "second", TTL, moment + 3 * TTL)
    a_pass(database, first_look(), FIRST, second)
    _same(_ledger_of(database), undisturbed[0])


def test_a_first_look_that_was_cut_short_can_be_closed(database: Database, database_url: str) -> None:
    """The project is taken out of the settings before its first look was whole: what was recorded ends as well."""
    assert _killed(database_url, STORY[0], 6)
    _close(database, NOW)
    with database.read() as connection:
        assert set(connection.scalars(select(instances.c.gone_at.is_not(None)))) == {True}
        assert projects.last_look(connection, PROJECT) is None


def test_a_large_first_pass_lets_the_lease_be_renewed(sqlite_database: Database, sqlite_url: str) -> None:
    """1,500 new VMs, each with 18 days to be charged: between any two bounded transactions it is renewed."""
    _with_prices(sqlite_database)
    now = at("2026-11-20T12:00:00")
    look = observation(*map(_vm, range(1500)), read="2026-11-20T12:00:00")
    lease = leases.acquire(sqlite_database, "daemon", "us", TTL)
    assert lease is not None
    rows, renewals = [0], 0

    def renew() -> None:
        nonlocal renewals
        leases.renew(sqlite_database, lease, TTL)
        renewals += 1
        rows.append(0)

    def count(_connection: Any, cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
            rows[-1] += max(cursor.rowcount, 0)

    event.listen(Engine, "after_cursor_execute", count)
    try:
        with _watched(sqlite_url, renew) as watched:
            reconciler = Reconciler(
                watched, FakeCloud({PROJECT: look}), HandClock(now), lambda: [PROJECT], Rules({}), BELONGING
            )
            report = reconciler.run(lease)
    finally:
        event.remove(Engine, "after_cursor_execute", count)
    assert report.recorded[0].new_or_changed == 1500
    assert report.charged is not None
    assert report.charged.charges > 80_000
    assert max(rows) < 30_000
    assert renewals > 15
