"""Running totals: whatever happens to VMs and prices, they are what the ledger's spans have accrued."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, insert, select, update
from structlog.testing import capture_logs
from tests.accrued import assert_totals_hold
from tests.api import rows
from tests.builders import A100, PROJECT, T4, at, observation, seen
from tests.fakes import FakeCloud, HandClock
from tests.within import keep_rates

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.db import tables
from costguard.db.backup import verify
from costguard.db.remembered import forget
from costguard.db.transaction import Database
from costguard.ledger import price_refresh, prices, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.labels.label_history import KEEPER_COLUMNS
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import close_account, record
from costguard.ledger.running import burn_rates, running_totals
from costguard.ledger.running.running_total_rows import TotalFigures
from costguard.ledger.running.running_totals import heal
from costguard.model.budget import Scope
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.price import Price, PriceKey, Unit

_EXAMPLES = 25 if "COSTGUARD_OTHER_EXAMPLES" in os.environ else 8
BELONGING = Belonging((), OwnerRules(domain="example.com"))
UNKNOWN = Shape("x9-unheard-of", 0, 0)
MODELS = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)
HOUR = timedelta(hours=1)
PARTS = (
    *(("a2:core", Unit.HOUR), ("a2:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-a100", Unit.HOUR)),
    *(("n1:core", Unit.HOUR), ("n1:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-t4", Unit.HOUR)),
)


def price(resource: str, unit: Unit, model: ProvisioningModel, nanos: int, since: str) -> Price:
    return Price(PriceKey(resource, "us-central1", model), unit, nanos, at(since), "snapshot")


@dataclass
class Story:
    """A project whose VMs and prices change by chance from 28 October on: over midnights and the end of a month."""

    database: Database
    seed: int
    vms: dict[str, SeenInstance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.moment = at("2026-10-28T20:00:00")
        self.cloud = FakeCloud()
        first = [
            price(resource, unit, model, self.chance.randrange(10**6, 10**9), "2026-10-01T00:00:00")
            for resource, unit in PARTS
            for model in MODELS
        ]
        first += [price("disk:pd-balanced", Unit.GIB_MONTH, MODELS[0], 98_765_432, "2026-10-01T00:00:00")]
        with self.database.write() as connection:
            prices.add(connection, first, self.moment)

    def later(self) -> None:
        self.moment += timedelta(seconds=self.chance.choice([20, 600, 7_654, 30_000, 100_000]))

    def begin(self) -> None:
        number = 1000 + len(self.vms) + self.chance.randrange(10**6)
        began = self.moment - timedelta(seconds=self.chance.choice([0, 0.25, 30, 5_000, 200_000]))
        disk = AttachedDisk(f"vm-{number}", 100, self.chance.choice(["pd-balanced", None]), began, boot=True)
        self.vms[str(number)] = seen(
            key=InstanceKey(PROJECT, str(number)),
            name=f"vm-{number}",
            created_at=began,
            last_started_at=began,
            started=None,
            shape=self.chance.choice([A100, T4, T4, UNKNOWN]),
            provisioning_model=self.chance.choice(MODELS),
            labels=self._labels(),
            disks=(disk,),
            fingerprint=str(self.chance.random()),
        )

    def _labels(self) -> dict[str, str]:
        """The labels of its owner and of what keeps it: a cluster of SkyPilot's, one of GKE's, or nothing."""
        kept_by = self.chance.choice([{}, {}, {"skypilot-cluster-name": "sky-a"}, {"goog-k8s-cluster-name": "train"}])
        return {"owner": f"person-{self.chance.randrange(3)}", **kept_by}

    def change(self) -> None:
        """Makes one VM stop, be suspended, start again, change hands, keeper or shape, or be gone."""
        if not self.vms:
            return
        gce_id = self.chance.choice(sorted(self.vms))
        vm = replace(self.vms[gce_id], fingerprint=str(self.chance.random()))
        at_some = self.moment - timedelta(seconds=self.chance.randrange(40))
        match self.chance.randrange(6):
            case 0:
                vm = replace(vm, status=Status.STOPPED, last_stopped_at=at_some)
            case 1:
                vm = replace(vm, status=Status.SUSPENDED, last_suspended_at=at_some)
            case 2:
                vm = replace(vm, status=Status.RUNNING, last_started_at=at_some)
            case 3:
                vm = replace(vm, labels=self._labels())
            case 4:
                disks = (*vm.disks, AttachedDisk(f"more-{at_some}", 55, "pd-balanced", at_some))
                vm = replace(vm, disks=disks)
            case 5:
                del self.vms[gce_id]
                self.cloud.gone.add(gce_id)
                return
        self.vms[gce_id] = vm

    def look(self) -> None:
        observed = observation(*self.vms.values(), read=self.moment.replace(tzinfo=None).isoformat())
        record(self.database, self.cloud, observed, BELONGING, None, at_once=2)

    def dearer(self) -> None:
        """Some prices change as of now; one may be of a disk, by the month."""
        resource, unit = self.chance.choice([*PARTS, ("disk:pd-balanced", Unit.GIB_MONTH)])
        model = ProvisioningModel.STANDARD if unit is Unit.GIB_MONTH else self.chance.choice(MODELS)
        with self.database.read() as connection:
            of_resource = [one for one in prices.load(connection) if one.key.resource == resource]
        old = next(one for one in of_resource if one.key.provisioning_model is model)
        rate = round(old.rate_nanos * self.chance.uniform(0.9, 1.1))
        new = replace(old, rate_nanos=rate, in_force_from=self.moment, source="catalog", id=None)
        price_refresh.record(self.database, [new], self.moment)

    def catch_up(self) -> None:
        running_totals.catch_up(self.database, self.moment, at_once=2)

    def charge(self) -> None:
        charge_due(self.database, self.moment, most_days=3)

    def hand_over(self) -> None:
        """The project is watched no longer, and then again."""
        with self.database.read() as connection:
            look = projects.last_look(connection, PROJECT)
        if look is not None:
            close_account(self.database, look, BELONGING, None, at_once=2)
        self.look()

    def steps(self) -> list[Callable[[], None]]:
        return [
            *(self.later, self.begin, self.change, self.change, self.look, self.look),
            *(self.dearer, self.catch_up, self.catch_up, self.charge, self.hand_over),
        ]


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_totals_follow_whatever_happens(sqlite_database: Database, seed: int) -> None:
    """After each step, with rates current or not: no row drifts, and figures are those of each span, to the cent."""
    with sqlite_database.write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table.name != "changes":
                connection.execute(delete(table))
    story = Story(sqlite_database, seed)
    for _ in range(3):
        story.begin()
    story.look()
    story.catch_up()
    for _ in range(25):
        story.chance.choice(story.steps())()
        with sqlite_database.read() as connection:
            assert_totals_hold(connection, story.moment)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_totals_follow_on_either_database(database: Database, seed: int) -> None:
    """The same, once through, on SQLite and PostgreSQL."""
    story = Story(database, seed)
    for step in [story.begin, story.begin, story.look, story.catch_up, *story.steps() * 2]:
        step()
        with database.read() as connection:
            assert_totals_hold(connection, story.moment)


class _TakenBack(Exception):
    pass


def _by_keeper(connection: Connection, now: datetime) -> dict[str, dict[tuple[str | None, date], TotalFigures]]:
    """The totals of today and the day before by each part of keepers that they hold."""
    forget()
    accrual, last = accrual_at(connection, now), now + timedelta(days=1)
    return {
        label: running_totals.by_label(connection, accrual, label, now - timedelta(days=1), last, Scope())
        for label in KEEPER_COLUMNS
    }


@pytest.mark.parametrize("seed", [5, 6])
def test_totals_by_keeper_are_those_of_its_spans(database: Database, seed: int) -> None:
    """After each step, whatever keeps which VM by then: what is stored by keeper is what the spans add up to."""
    story, compared = Story(database, seed), set[str | None]()
    for step in [story.begin, story.begin, story.begin, story.look, story.catch_up, *story.steps() * 3]:
        step()
        with contextlib.suppress(_TakenBack), database.write() as connection:
            if burn_rates.are_current(connection, accrual_at(connection, story.moment)):
                stored = _by_keeper(connection, story.moment)
                compared |= {value for totals in stored.values() for value, _ in totals}
                burn_rates.drop_basis(connection)
                assert _by_keeper(connection, story.moment) == stored
            kept = connection.execute(select(tables.instances)).all()
            raise _TakenBack
        assert all(row.keeper_kind == row.keeper["keeper"] for row in kept)
        assert all(row.keeper_product == row.keeper.get("product") for row in kept)
    assert {None} < compared <= {None, "nobody", "gke", "tool", "SkyPilot cluster"}


def test_drift_is_found_and_healed(database: Database) -> None:
    """Rows that were lost, doubled or made up are named in the log and made again; nothing else is written."""
    story = Story(database, 4)
    for _ in range(6):
        story.begin()
    story.look()
    story.catch_up()
    totals = tables.running_totals
    assert heal(database, story.moment) == 0
    with database.read() as connection:
        right = sorted(map(tuple, connection.execute(select(totals))))
        good_basis = connection.execute(select(tables.burn_rates)).one()
    assert len(right) > 2
    made_up = dict(zip([column.name for column in totals.c], ("nowhere", *right[0][1:]), strict=True))
    with database.write() as connection:
        connection.execute(delete(totals).where(totals.c.provisioning_model == "spot"))
        connection.execute(update(totals).values(machine_nanos=totals.c.machine_nanos + 1))
        connection.execute(insert(totals).values(made_up))
    with capture_logs() as logs:
        assert heal(database, story.moment) >= len(right)
    assert {entry["event"] for entry in logs} == {"running_total_drifted"}
    with database.read() as connection:
        assert sorted(map(tuple, connection.execute(select(totals)))) == right
        assert connection.execute(select(tables.burn_rates)).one() == good_basis
        assert_totals_hold(connection, story.moment)


def test_a_pass_heals_what_drifted(sqlite_database: Database) -> None:
    """The pass heals at its first pass, and then each hour; in between it costs nothing."""
    clock = HandClock(at("12:00"))
    reconciler = Reconciler(sqlite_database, FakeCloud(), clock, lambda: (), Rules({}), BELONGING)
    with sqlite_database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "vm", gce_id="1000")
        rows.lifetime(connection, vm, clock.now() - HOUR)
        keep_rates(connection, clock.now())
    totals = tables.running_totals
    for minutes, is_healed in ((0, True), (5, False), (54, False), (2, True)):
        clock.moment += timedelta(minutes=minutes)
        with sqlite_database.write() as connection:
            connection.execute(update(totals).values(running=7))
        reconciler.run()
        with sqlite_database.read() as connection:
            assert set(connection.scalars(select(totals.c.running))) == {1 if is_healed else 7}


def test_verify_finds_a_lifetime_that_no_total_counts(sqlite_database: Database) -> None:
    """`costguard db verify` compares the counts, without prices; without a basis there is nothing to compare."""
    rule = "running totals count every open lifetime that has a price"
    with sqlite_database.write() as connection:
        rows.prices(connection)
        for name, given in (("priced", {}), ("unheard-of", rows.H100)):
            vm = rows.instance(connection, name, **given)
            rows.lifetime(connection, vm, rows.NOW - HOUR, **given)
        keep_rates(connection, rows.NOW)
        assert [check.rule for check in verify.checks(connection) if not check.holds] == []
        connection.execute(delete(tables.running_totals))
        assert [check.rule for check in verify.checks(connection) if not check.holds] == [rule]
        connection.execute(delete(tables.burn_rates))
        assert [check.rule for check in verify.checks(connection) if not check.holds] == []
