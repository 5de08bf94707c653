"""bulkInsert: many VMs with one request, in one zone or in the zones of a region that have capacity.

Rules: Google's descriptions of BulkInsertInstanceResource and LocationPolicy in the API's discovery document. What can
differ between the VMs is the name and the hostname alone (BulkInsertInstanceResourcePerInstanceProperties there; "No
properties beyond name are supported yet" in GoogleCloudPlatform/slurm-gcp, scripts/resume.py): no metadata. Which zone
Google tries first is not documented; here it is the region's first that offers the machine type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from costguard_sandbox.gce.catalogue.regions import ZONES, zones_of
from costguard_sandbox.gce.errors import Refused, already_exists, bad_request, invalid
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.operations import Failure, Operation, OperationLog
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import VM

_MOST = 5000
_HASHES = re.compile(r"#+")
_SHAPES = ("ANY_SINGLE_ZONE", "ANY", "BALANCED")
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Child:
    """An insert of the group, begun; `vm` is None where there was no capacity."""

    operation: Operation
    vm: VM | None
    failure: Failure | None


Insert = Callable[[str, str, Mapping[str, Any], str, str], Child]
"""Begins one insert: project, zone, body, user, group."""


@dataclass(slots=True)
class ZoneInserts:
    """The inserts in one zone."""

    target: int = 0
    children: list[Child] = field(default_factory=list)

    def made(self) -> list[VM]:
        return [child.vm for child in self.children if child.vm is not None]

    def shown(self, *, rolling_back: bool, done: bool) -> dict[str, Any]:
        created = sum(1 for one in self.children if one.operation.is_done and one.operation.failure is None)
        failed = sum(1 for one in self.children if one.failure is not None)
        deleted = sum(1 for vm in self.made() if vm.deleted_at is not None) if rolling_back else 0
        return {
            "targetVmCount": self.target,
            "createdVmCount": created,
            **({"failedToCreateVmCount": failed} if failed else {}),
            **({"deletedVmCount": deleted} if rolling_back else {}),
            "status": "DONE" if done else "ROLLING_BACK" if rolling_back else "CREATING",
        }


@dataclass(slots=True)
class BulkInsert:
    """A bulk insert. A VM for which one zone has no capacity is tried in the next."""

    project: str
    count: int
    least: int
    shape: str
    zones: tuple[str, ...]
    properties: Mapping[str, Any]
    names: tuple[str, ...]
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by name
    places: dict[str, ZoneInserts] = field(default_factory=dict)
    rolls_back: bool = False

    def body(self, zone: str, name: str) -> dict[str, Any]:
        """The body of a single insert; a bulk insert gives only the name of the machine type."""
        machine = last_part(str(self.properties.get("machineType") or ""))
        shared = {**self.properties, "name": name, "machineType": f"zones/{zone}/machineTypes/{machine}"}
        return {**shared, **self.own.get(name, {})}

    def place_all(self, insert: Insert, user: str, group: str) -> None:
        """Begins an insert for every name; an insert without capacity fails."""
        left = list(self.zones)
        for turn, name in enumerate(self.names):
            is_placed = False
            while left and not is_placed:
                zone = left[turn % len(left) if self.shape == "BALANCED" else 0]
                place = self.places.setdefault(zone, ZoneInserts())
                child = insert(self.project, zone, self.body(zone, name), user, group)
                place.target += 1
                place.children.append(child)
                is_placed = child.failure is None
                if not is_placed:
                    left = (
                        []
                        if self.shape == "ANY_SINGLE_ZONE" and place.made()
                        else [other for other in left if other != zone]
                    )

    def made(self) -> list[VM]:
        return [vm for place in self.places.values() for vm in place.made()]

    def failure(self) -> Failure | None:
        """Returns the failure, if too few VMs were made. Code, words and 503: googleapis/google-cloud-go issue 5168."""
        if len(self.made()) >= self.least:
            return None
        text = f"Requested minimum count of {self.least} VMs could not be created."
        causes = [one.failure for place in self.places.values() for one in place.children if one.failure is not None]
        return Failure("VM_MIN_COUNT_NOT_REACHED", text, 503, others=tuple(causes[:1]))

    def is_done(self) -> bool:
        """Says whether every insert, and every delete of a rollback, is done."""
        if not all(one.operation.is_done for place in self.places.values() for one in place.children):
            return False
        return not self.rolls_back or all(vm.deleted_at is not None for vm in self.made())

    def shown(self, *, done: bool) -> dict[str, Any]:
        """`instancesBulkInsertOperationMetadata`."""
        return {
            "perLocationStatus": {
                f"zones/{zone}": place.shown(rolling_back=self.rolls_back, done=done)
                for zone, place in self.places.items()
            }
        }


@dataclass(eq=False)
class BulkInserts:
    """Begins bulk inserts. Callers hold the cloud's lock."""

    _operations: OperationLog
    _lifecycle: Lifecycle
    _insert: Insert
    _instances: Callable[[str], list[VM]]

    def begin(self, project: str, scope: str, body: Mapping[str, Any], user: str, request_id: str) -> Operation:
        bulk = read_bulk(project, scope, body, self._instances(project))
        operation = self._operations.begin_bulk(project, scope, user, request_id, body)
        operation.bulk = lambda: bulk.shown(done=operation.is_done)
        bulk.place_all(self._insert, user, operation.group)
        failure = bulk.failure()
        if failure is not None:
            bulk.rolls_back = True
            for vm in bulk.made():
                self._lifecycle.accept(self._operations.begin("delete", vm.target, user, group=operation.group), vm)
        self._lifecycle.follow(operation, bulk.is_done, failure)
        return operation


def read_bulk(project: str, scope: str, body: Mapping[str, Any], present: Iterable[VM]) -> BulkInsert:
    """The requested inserts, in a project with the VMs `present`. Raises Refused with nothing made."""
    count = _number("resource.count", body.get("count"))
    least = _number("resource.minCount", body["minCount"]) if body.get("minCount") else count
    if least > count:
        raise invalid("resource.minCount", least, f"Must not be more than the count, {count}.")
    if body.get("sourceInstanceTemplate") or not body.get("instanceProperties"):
        raise bad_request(
            "The simulated cloud makes VMs in bulk from instanceProperties; it has no instance templates."
        )
    policy: Mapping[str, Any] = body.get("locationPolicy") or {}
    shape = str(policy.get("targetShape") or _SHAPES[0])
    if shape not in _SHAPES:
        raise invalid("resource.locationPolicy.targetShape", shape, f"Must be one of {', '.join(_SHAPES)}.")
    zones = _zones(scope, policy)
    names = _names(body, count, {vm.name for vm in present if vm.zone in zones})
    own = {name: _own(given or {}) for name, given in (body.get("perInstanceProperties") or {}).items()}
    bulk = BulkInsert(project, count, least, shape, zones, body["instanceProperties"], names, own)
    bulk.zones = tuple(zone for zone in zones if _is_sold(bulk, zone))
    if not bulk.zones:  # raises the first zone's reason
        read_insert(zones[0], bulk.body(zones[0], names[0]), project)
    return bulk


def _own(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what one VM has for itself. `name` is output only."""
    for key in given:
        if key not in ("hostname", "name"):
            where = "at 'resource.per_instance_properties[0].value': Cannot find field."
            raise bad_request(f'Invalid JSON payload received. Unknown name "{key}" {where}')
    return {"hostname": given["hostname"]} if given.get("hostname") else {}


def _is_sold(bulk: BulkInsert, zone: str) -> bool:
    try:
        read_insert(zone, bulk.body(zone, bulk.names[0]), bulk.project)
    except Refused:
        return False
    return True


def _zones(scope: str, policy: Mapping[str, Any]) -> tuple[str, ...]:
    kind, _, name = scope.partition("/")
    zones = (name,) if kind == "zones" and name in ZONES else zones_of(name)
    if not zones:
        raise invalid(kind.removesuffix("s"), name, f"Unknown {kind.removesuffix('s')}.")
    denied = set()
    for location, wanted in (policy.get("locations") or {}).items():
        zone = last_part(str(location))
        if zone not in zones:
            raise invalid("resource.locationPolicy.locations", location, f"Must be a zone of {name}.")
        if (wanted or {}).get("preference") == "DENY":
            denied.add(zone)
    allowed = tuple(zone for zone in zones if zone not in denied)
    if not allowed:
        raise invalid("resource.locationPolicy.locations", ", ".join(sorted(denied)), "At least one zone must be left.")
    return allowed


def _names(body: Mapping[str, Any], count: int, taken: set[str]) -> tuple[str, ...]:
    pattern, given = str(body.get("namePattern") or ""), list(body.get("perInstanceProperties") or {})
    if given:
        if len(given) != count:
            raise invalid("resource.perInstanceProperties", f"{len(given)} names", f"Must be {count}, as the count is.")
        if clashes := sorted(taken.intersection(given)):
            raise already_exists(f"instances/{clashes[0]}")
        return tuple(given)
    hashes = _HASHES.findall(pattern)
    if len(hashes) != 1 or len(hashes[0]) > _MOST_DIGITS:
        raise invalid("resource.namePattern", pattern, "Must have one continuous sequence of 1 to 18 hash characters.")
    head, _, tail = pattern.partition(hashes[0])
    form = re.compile(rf"{re.escape(head)}(\d{{{len(hashes[0])}}}){re.escape(tail)}")
    last = max((int(match[1]) for name in taken if (match := form.fullmatch(name))), default=0)
    return tuple(f"{head}{number:0{len(hashes[0])}d}{tail}" for number in range(last + 1, last + count + 1))


def _number(field_name: str, given: object) -> int:
    text = str(given or "")
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise invalid(field_name, text, f"Must be a number from 1 to {_MOST}.")
    return int(text)
