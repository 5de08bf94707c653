"""The simulated cloud without HTTP between: quick to look at many times, and any part of an answer can be lost."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from tests.resource_names import guards_key
from tests.scenario.fleet import ZONES

from costguard.gce.convert import Shapes, instance_from
from costguard.gce.disks import disk_details
from costguard.gce.machine_types import MachineShape
from costguard.gce.operations import operation_from
from costguard.model.instance import InstanceKey, Shape
from costguard.model.observation import Observation, Presence, Unread
from costguard.model.price import EVERYWHERE, Price, Unit
from costguard_sandbox.gce.catalogue.prices import unit_of
from costguard_sandbox.gce.render import disk_resource, instance_resource
from costguard_sandbox.world import World

_REGIONS = {zone.rsplit("-", 1)[0] for zone in ZONES}


class DirectCloud:
    """Every part of every answer is lost with the probability `loss`, and time goes on between the lists."""

    def __init__(self, world: World, chance: random.Random, loss: float) -> None:
        self.loss = loss
        self._world = world
        self._chance = chance

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        world, read_at = self._world, self._world.now
        if self._is_lost():
            lost = Unread("project", "its permission is lost", "permission")
            return Observation(project, read_at, instances_complete=False, unread=(lost,))
        unread_zones = frozenset({self._chance.choice(ZONES)} if self._is_lost() else ())
        page_lost, operations_lost, disks_lost, types_lost = (self._is_lost() for _ in range(4))
        disks = {
            f"zones/{disk.zone}/disks/{disk.name}": disk_details(disk_resource(world.base_url, disk))
            for disk in world.disks(project)
            if not disks_lost
        }
        vms = [vm for vm in world.instances(project) if vm.zone not in unread_zones]
        shapes = {
            vm.shape.machine_type: MachineShape(
                vm.shape.vcpus, vm.shape.memory_mb, vm.shape.gpu_type or None, vm.shape.gpu_count
            )
            for vm in vms
            if not types_lost
        }
        made_of = Shapes(lambda _zone, name: shapes.get(name))
        listed = [
            instance_from(project, vm.zone, instance_resource(world.base_url, vm), disks, made_of)[0]
            for vm in vms
            if not page_lost or self._chance.random() < 0.5
        ]
        if self.loss:
            world.advance(timedelta(seconds=self._chance.uniform(0, 10)))
        read_through = None if operations_lost or unread_zones else world.now
        operations = [
            operation_from(project, one.resource())
            for one in world.operations.of(project)
            if one.scope.removeprefix("zones/") not in unread_zones
            and not (operations_lost and self._chance.random() < 0.7)
        ]
        return Observation(
            project,
            read_at,
            tuple(listed),
            not page_lost,
            unread_zones,
            tuple(operation for operation in operations if operation is not None),
            read_through,
        )

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        """Does nothing: VMs come whole each time."""

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        if self._is_lost():
            return Presence.NOT_KNOWN
        there = any(str(vm.id) == key.gce_id for vm in self._world.instances(key.project))
        return Presence.THERE if there else Presence.GONE

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        return None  # nothing here is launched by jobs

    def _is_lost(self) -> bool:
        return self._chance.random() < self.loss


class DirectPrices:
    """The price list of the world; what is in `hidden` is not told."""

    def __init__(self, world: World) -> None:
        self.hidden: set[str] = set()
        self._world = world

    def fetch(self) -> Sequence[Price]:
        prices = []
        for resource, region, spot in self._world.prices.sold():
            if region in (*_REGIONS, EVERYWHERE) and resource not in self.hidden:
                since, nanos = self._world.prices.history(resource, region, spot)[-1]
                key = guards_key(resource, region, spot)
                prices.append(Price(key, Unit(unit_of(resource)), nanos, since, "catalog"))
        return prices
