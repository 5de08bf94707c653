"""instances.*"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce import changes
from costguard_sandbox.gce.catalogue.regions import ZONE_SCOPES, ZONES
from costguard_sandbox.gce.changes import Change
from costguard_sandbox.gce.checks import check_local_ssd_choice
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import bad_request, invalid
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.routes.call import ApiCall, Handler, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list, refuse_unreachable, zone_scope
from costguard_sandbox.gce.routes.resource_policies import check_vm

_VERBS = ("start", "stop", "suspend", "resume", "reset")


_CHANGES: Mapping[str, Callable[[ApiCall], Change]] = {
    "setLabels": lambda call: changes.labels(call.body.get("labels") or {}, str(call.body.get("labelFingerprint", ""))),
    "setMetadata": lambda call: changes.metadata(call.body),
    "setScheduling": lambda call: changes.scheduling(call.body),
    "setTags": lambda call: changes.tags(call.body),
    "setMachineType": lambda call: changes.machine_type(call.body),
    "setDeletionProtection": lambda call: changes.deletion_protection(on=call.flag("deletionProtection", "true")),
    "setDiskAutoDelete": lambda call: changes.disk_auto_delete(
        call.required("deviceName"), auto_delete=call.flag("autoDelete")
    ),
}
_BY_QUERY = frozenset({"setDeletionProtection", "setDiskAutoDelete"})


def routes(cloud: Cloud) -> list[Route]:
    instance = "/projects/{project}/zones/{zone}/instances/{name}"
    routes = [
        compute("/projects/{project}/aggregated/instances", _aggregated, cloud, cached=True),
        compute("/projects/{project}/zones/{zone}/instances", _list, cloud, cached=True),
        compute("/projects/{project}/zones/{zone}/instances", _insert, cloud, "POST", takes_body=True),
        compute("/projects/{project}/zones/{zone}/instances/bulkInsert", _bulk, cloud, "POST", takes_body=True),
        compute("/projects/{project}/regions/{region}/instances/bulkInsert", _bulk, cloud, "POST", takes_body=True),
        compute(instance, _get, cloud),
        compute(instance, _verb("delete"), cloud, "DELETE"),
        compute(f"{instance}/serialPort", _serial_port, cloud),
        compute(f"{instance}/simulateMaintenanceEvent", _simulate_maintenance, cloud, "POST"),
        compute(f"{instance}/attachDisk", _attach_disk, cloud, "POST", takes_body=True),
        compute(f"{instance}/detachDisk", _detach_disk, cloud, "POST"),
    ]
    routes += [compute(f"{instance}/{verb}", _verb(verb), cloud, "POST") for verb in _VERBS]
    return routes + [
        compute(f"{instance}/{kind}", _changing(kind, change), cloud, "POST", takes_body=kind not in _BY_QUERY)
        for kind, change in _CHANGES.items()
    ]


def _aggregated(call: ApiCall) -> Any:
    rows = [instance_resource(call.cloud.links, vm) for vm in call.cloud.instances(call.project)]
    return aggregated_list(call, "compute#instanceAggregatedList", "instances", rows, ZONE_SCOPES, zone_scope)


def _list(call: ApiCall) -> Any:
    zone = _zone(call)
    rows = [instance_resource(call.cloud.links, vm) for vm in call.cloud.instances(call.project) if vm.zone == zone]
    return plain_list(call, "compute#instanceList", rows)


def _get(call: ApiCall) -> Any:
    return instance_resource(call.cloud.links, call.cloud.instance(call.project, call.params["name"], _zone(call)))


def _serial_port(call: ApiCall) -> Any:
    """The output of the VM's startup script, on the first of four ports, where the VM runs as a local process."""
    port, start = call.query.get("port", "1"), call.query.get("start", "0")
    if port not in ("1", "2", "3", "4"):
        raise invalid("port", port, "Must be a number from 1 to 4.")
    if not start.removeprefix("-").isdecimal():
        raise invalid("start", start, "Must be a number.")
    vm = call.cloud.instance(call.project, call.params["name"], _zone(call))
    dropped, printed = call.cloud.guests.serial_output(vm) if port == "1" else (0, b"")
    end = dropped + len(printed)
    wanted = int(start) if int(start) >= 0 else end + int(start)
    begin = max(dropped, min(wanted, end))
    return {
        "kind": "compute#serialPortOutput",
        "contents": printed[begin - dropped :].decode("utf-8", "replace"),
        "start": str(begin),
        "next": str(end),
        "selfLink": f"{call.cloud.links}{call.path.removeprefix('/compute/v1')}",
    }


def _simulate_maintenance(call: ApiCall) -> Any:
    vm = call.cloud.instance(call.project, call.params["name"], _zone(call))
    return call.cloud.simulate_maintenance(vm, call.user, call.request_id).resource()


def _insert(call: ApiCall) -> Any:
    for source in ("sourceMachineImage", "sourceInstanceTemplate"):
        if given := call.query.get(source) or call.body.get(source):
            raise bad_request(
                f"The simulated cloud has no {source[6].lower()}{source[7:]}s, so it cannot use '{given}':"
                f" send the instance itself, without {source}."
            )
    check_vm(call, _zone(call))
    return call.cloud.insert(call.project, _zone(call), call.body, call.user, call.request_id).resource()


def _bulk(call: ApiCall) -> Any:
    scope = f"zones/{_zone(call)}" if "zone" in call.params else f"regions/{call.params['region']}"
    return call.cloud.bulk_insert(call.project, scope, call.body, call.user, call.request_id).resource()


def _verb(verb: str) -> Handler:
    def handle(call: ApiCall) -> Any:
        name = call.params["name"]
        if verb in ("stop", "suspend"):
            vm = call.cloud.instance(call.project, name, _zone(call))
            check_local_ssd_choice(vm, call.flag("discardLocalSsd") if "discardLocalSsd" in call.query else None)
        return call.cloud.request(verb, call.project, _zone(call), name, call.user, call.request_id).resource()

    return handle


def _changing(kind: str, change: Callable[[ApiCall], Change]) -> Handler:
    def handle(call: ApiCall) -> Any:
        where = call.project, _zone(call), call.params["name"]
        return call.cloud.change(kind, *where, change(call), call.user, call.request_id).resource()

    return handle


def _attach_disk(call: ApiCall) -> Any:
    vm = call.cloud.instance(call.project, call.params["name"], _zone(call))
    return call.cloud.storage.attach(vm, call.body, call.user, call.request_id).resource()


def _detach_disk(call: ApiCall) -> Any:
    vm = call.cloud.instance(call.project, call.params["name"], _zone(call))
    return call.cloud.storage.detach(vm, call.required("deviceName"), call.user, call.request_id).resource()


def _zone(call: ApiCall) -> str:
    zone = call.params["zone"]
    if zone not in ZONES:
        raise invalid("zone", zone, "Unknown zone.")
    refuse_unreachable(call, zone)
    return zone
