"""VMs of bulk inserts and of managed groups, from the simulated audit log to the ledger, by entries alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select
from tests.scenario.fleet import MINUTE, PROJECTS, body
from tests.scenario.test_feed import CENT, ZONE, Watch, watching

from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.groups import service_agent
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 8, 0, 7, tzinfo=UTC)
SCOPES = {"of a zone": f"zones/{ZONE}", "of a region": "regions/us-central1"}


def asked(count: int, pattern: str, **given: Any) -> dict[str, Any]:
    wanted = body("", ZONE, "n1-standard-4", ("nvidia-tesla-t4", 1), disk_gib=300, **given)
    properties = {key: value for key, value in wanted.items() if key != "name"} | {"machineType": "n1-standard-4"}
    return {"count": str(count), "namePattern": pattern, "instanceProperties": properties}


def bulk_insert(world: World, scope: str, wanted: dict[str, Any]) -> None:
    world.bulk_insert(PROJECTS[0], scope, wanted)


def delete_all(world: World) -> None:
    for vm in world.instances(PROJECTS[0]):
        if vm.status is not Status.DELETED:
            world.request("delete", PROJECTS[0], vm.zone, vm.name)


def wrong(watch: Watch) -> dict[str, tuple[int | None, int]]:
    """Returns the VMs whose cost in the ledger is not that of the bill, to half a cent."""
    spent, billed = watch.spent(), watch.billed()
    return {
        gce_id: (spent.get(gce_id), nanos)
        for gce_id, nanos in billed.items()
        if abs(spent.get(gce_id, 0) - nanos) >= CENT // 2
    }


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("trouble", ["in order", "disordered", "children lost"])
def test_vms_of_90_seconds_by_a_bulk_insert_are_priced_to_the_cent(
    sqlite_database: Database, scope: str, trouble: str
) -> None:
    """Two bulk inserts of 20 VMs, one of Spot: the VMs come and go between two sweeps. Their own entries say nothing of
    what they are; where these are lost, the list of operations has their names.
    """
    world = World(ManualClock(START), projects=PROJECTS, seed=21)
    if trouble == "disordered":
        world.audit.faults.add("disorder", seconds=120)
    elif trouble == "children lost":
        world.audit.faults.add("drop", share=1, part="bulk")
    with watching(sqlite_database, world) as watch:
        for name, spot in (("std-###", False), ("spot-###", True)):
            world.at(
                world.now + timedelta(seconds=7), partial(bulk_insert, world, SCOPES[scope], asked(20, name, spot=spot))
            )
        world.at(world.now + timedelta(seconds=105), partial(delete_all, world))
        watch.advance(15 * MINUTE, every=MINUTE / 4)
        assert world.instances(PROJECTS[0]) == []
        watch.later.run(watch.lease)
        watch.sweep()
        assert len(watch.billed()) == 40
        assert min(watch.billed().values()) > 0
        assert wrong(watch) == {}
    assert watch.listed == set()
    with sqlite_database.read() as connection:
        query = select(lifetimes.c.machine_type, lifetimes.c.provisioning_model)
        models = {(row.machine_type, row.provisioning_model) for row in connection.execute(query)}
    assert models == {("n1-standard-4", "standard"), ("n1-standard-4", "spot")}


def test_without_the_request_of_a_bulk_insert_no_price_is_made_up(sqlite_database: Database) -> None:
    """The one entry that says what the VMs are is lost: each is counted, with its times."""
    world = World(ManualClock(START), projects=PROJECTS, seed=22)
    world.audit.faults.add("drop", share=1, part="first")
    with watching(sqlite_database, world) as watch:
        world.bulk_insert(PROJECTS[0], f"zones/{ZONE}", asked(5, "w-##"))
        world.at(world.now + timedelta(seconds=90), partial(delete_all, world))
        watch.advance(15 * MINUTE)
        watch.sweep()
        assert watch.spent() == {}
        assert len(watch.billed()) == 5
    with sqlite_database.read() as connection:
        assert len(list(connection.scalars(select(instances.c.gce_id)))) == 5


def test_a_managed_groups_vm_is_priced_by_the_insert_of_googles_service(sqlite_database: Database) -> None:
    """The request of N@cloudservices has all of the template's properties, as in a recorded GKE node's entry: priced,
    and unowned.
    """
    world = World(ManualClock(START), projects=PROJECTS, seed=23)
    with watching(sqlite_database, world) as watch:
        for name in ("workers-a1b2", "workers-c3d4", "workers-e5f6"):
            wanted = body(name, ZONE, "n1-standard-4", spot=True)
            world.insert(PROJECTS[0], ZONE, wanted, user=service_agent(PROJECTS[0]))
        world.at(world.now + timedelta(seconds=90), partial(delete_all, world))
        watch.advance(15 * MINUTE)
        watch.sweep()
        assert len(watch.billed()) == 3
        assert wrong(watch) == {}
    assert watch.listed == set()
    with sqlite_database.read() as connection:
        assert {row.owner for row in connection.execute(select(instances.c.owner))} == {""}
