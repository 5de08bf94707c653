"""A pass that reads only VMs which may be due decides as one that reads them all."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows
from tests.reminders.reminded import DAY, HOUR, NEVER_QUIET, nobody, stopping

from costguard.access.rules import Rules
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.keepers.reading import recorded_keeper
from costguard.model.preset import Match, Preset
from costguard.model.reminder import StorageRule
from costguard.reminders import gather, slack_accounts
from costguard.reminders.decide import SOON, addresses_needed
from costguard.reminders.due_rows import may_be_due

ADA = "ada@lab.example"
RULES = Rules(
    {"t4": stopping(stop_after=1, grace=timedelta(minutes=30)), "free": Preset("free", Match(), None)},
    quiet=NEVER_QUIET,
    rest=StorageRule(after=2 * DAY),
    channel="#gpu",
    is_shadow=False,
)


def _one_vm(database: Database, chance: random.Random, number: int) -> None:
    """Some VM: running, stopped or never started; of a pool or not; idle, kept, warned and asked about or not."""
    is_node = chance.random() < 0.3
    labels, origin = {}, {}
    if is_node:
        pool = chance.choice(["t4", "big"])
        labels = {
            "goog-gke-node": "",
            "goog-k8s-cluster-name": "train",
            "goog-k8s-cluster-location": "us-central1",
            "goog-k8s-node-pool-name": pool,
        }
        group = f"projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-{pool}-1a2b3c4d-grp"
        origin = {"created-by": group}
    keeper = recorded_keeper(labels, origin, "us-central1-a", "")
    preset = chance.choice(["t4", "t4", "t4", "free", "gone"])
    hours = chance.choice([1, 6, 6.9, 7.2, 8, 9, 30, 72])
    state = chance.choice(["running", "running", "running", "stopped", "new"])
    with database.write() as connection:
        vm = rows.instance(
            connection,
            f"vm-{number:03}",
            preset=preset,
            labels=labels,
            origin=origin,
            keeper=keeper.stored() if keeper is not None else None,
            status="running" if state == "running" else "stopped",
            created_at=NOW - timedelta(hours=hours),
            gone_at=NOW if chance.random() < 0.05 else None,
        )
        if chance.random() < 0.8:
            rows.storage(connection, vm, NOW - timedelta(hours=hours))
        began = NOW - timedelta(hours=hours)
        if state == "new":
            return
        ended = None if state == "running" else began + timedelta(minutes=5)
        age_from = began - timedelta(hours=chance.choice([1, 5])) if chance.random() < 0.1 else None
        life = rows.lifetime(connection, vm, began, ended_at=ended, age_from=age_from, preset=preset)
        if chance.random() < 0.2:
            good_until = NOW + chance.choice([-1, 1]) * HOUR
            idle = chance.choice(["idle", "idle", "busy"])
            rows.measured(connection, vm, began, since=began + HOUR / 2, good_until=good_until, state=idle)
        subject = f"{'run' if ended is None else 'rest'}:{vm}:{life}"
        if chance.random() < 0.1:
            until = NOW + chance.choice([-1, 1, 5]) * HOUR
            reminder_rows.keep(connection, vm, subject, until, at=NOW - HOUR)
        if chance.random() < 0.3:
            sent = NOW - timedelta(minutes=chance.choice([10, 40, 300]))
            key = f"reminder/{subject}/0/0/owner"
            reminder_rows.message(
                connection, key, subject=subject, instance_id=vm, cycle=0, stage=0, accepted_at=sent, intended_at=sent
            )
        if chance.random() < 0.05:
            reminder_rows.request(connection, vm, subject, status="open", by=ADA)


@pytest.mark.parametrize("seed", range(8))
def test_it_decides_as_one_that_reads_all(database: Database, seed: int) -> None:
    """The same actions, the same decisions about those VMs, the same people to ask Slack for, and nothing to do
    about the others.
    """
    chance = random.Random(seed)
    rules = RULES if seed % 4 else replace(RULES, channel="")
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        slack_accounts.save(connection, nobody(ADA)[ADA])
    for number in range(60):
        _one_vm(database, chance, number)
    for minutes in (0, 30, 600):
        now = NOW + timedelta(minutes=minutes)
        with database.read() as connection:
            due = may_be_due(connection, rules, now, SOON)
            every, some = gather.gather(connection, rules, now), gather.gather(connection, rules, now, due=due)
            whole, part = (gather.decide_about(connection, fleet, rules, now) for fleet in (every, some))
        assert part.actions == whole.actions
        decided = {decision.key: decision for decision in whole.decisions}
        assert all(decided[decision.key] == decision for decision in part.decisions)
        assert part.overdue == whole.overdue
        assert addresses_needed(some, rules, now) == addresses_needed(every, rules, now)
        assert 0 < len(some) < len(every)
        assert [vm for vm in every if vm.key in {one.key for one in some}] == some


def test_a_fleet_within_its_limits_is_not_read(database: Database) -> None:
    """No one of a hundred running VMs is read that are not due for an hour and more."""
    with database.write() as connection:
        for number in range(100):
            vm = rows.instance(connection, f"vm-{number}")
            rows.lifetime(connection, vm, NOW - 6 * HOUR)
        assert may_be_due(connection, RULES, NOW, SOON) == set()
        assert gather.gather(connection, RULES, NOW, due=()) == []
        assert len(may_be_due(connection, RULES, NOW + HOUR, SOON)) == 100  # the limit of 8 hours is an hour away
        connection.execute(update(tables.lifetimes).values(age_from=NOW - 10 * HOUR))
        assert len(may_be_due(connection, RULES, NOW, SOON)) == 100


def test_a_limit_of_nothing_is_a_limit(database: Database) -> None:
    """A VM of such a preset is due as it starts."""
    rules = Rules({"t4": Preset("t4", Match(), timedelta())})
    with database.write() as connection:
        vm = rows.instance(connection, "vm")
        rows.lifetime(connection, vm, NOW)
        assert may_be_due(connection, rules, NOW, timedelta()) == {vm}
