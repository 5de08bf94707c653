"""The sandbox's own routes: clock, meter, faults and system events; and the price catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.routing import Route

from costguard_sandbox.clock import ManualClock, ScaledClock
from costguard_sandbox.faults import BadFault
from costguard_sandbox.gce.catalogue import vertex_prices
from costguard_sandbox.gce.catalogue.skus import SERVICE, skus_page
from costguard_sandbox.gce.catalogue.vertex_prices import VertexPrices
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_request, not_found
from costguard_sandbox.gce.filters import BadFilter
from costguard_sandbox.gce.meter import bills, disk_bills, node_bills
from costguard_sandbox.gce.meter.vertex import thing_bills
from costguard_sandbox.gce.routes.call import ApiCall, compute, control
from costguard_sandbox.gce.system_events import EVENTS, Reclaim
from costguard_sandbox.gce.vm import Load


def routes(cloud: Cloud) -> list[Route]:
    return [
        compute(f"/services/{SERVICE}/skus", _skus, cloud, root="/v1"),
        compute(f"/services/{vertex_prices.SERVICE}/skus", _vertex_skus, cloud, root="/v1"),
        control("/sandbox/clock", _clock, cloud, ("GET", "POST")),
        control("/sandbox/projects", _projects, cloud),
        control("/sandbox/meter", _meter, cloud),
        control("/sandbox/faults", _faults, cloud, ("GET", "POST", "DELETE")),
        control("/sandbox/faults/{id:int}", _remove_fault, cloud, ("DELETE",)),
        control("/sandbox/events", _events, cloud, ("GET", "POST")),
        control("/sandbox/preempt", _preempt, cloud, ("POST",)),
    ]


def _skus(call: ApiCall) -> Any:
    size = call.query.get("pageSize", "0")
    if not size.isdecimal():
        raise bad_request(f"pageSize must be a number, not {size!r}")
    cloud = call.cloud
    return skus_page(cloud.faults.shown(cloud.prices), cloud.timeline.now, int(size), call.query.get("pageToken"))


def _vertex_skus(call: ApiCall) -> Any:
    return {"skus": vertex_prices.vertex_skus(VertexPrices(call.cloud.prices), call.cloud.timeline.now)}


def _clock(call: ApiCall) -> Any:
    """POST {"speed": 60} sets a running clock's speed, {"advance": seconds} or {"to": time} moves a manual one."""
    clock, body = call.cloud.clock, call.body
    if call.method == "POST":
        if isinstance(clock, ScaledClock) and isinstance(body.get("speed"), int | float) and body["speed"] > 0:
            clock.speed = float(body["speed"])
        elif isinstance(clock, ManualClock) and isinstance(body.get("advance"), int | float) and body["advance"] >= 0:
            call.cloud.advance(timedelta(seconds=body["advance"]))
        elif isinstance(clock, ManualClock) and "to" in body:
            call.cloud.advance_to(_moment(body["to"]))
        else:
            wanted = '{"advance": seconds} or {"to": time}' if isinstance(clock, ManualClock) else '{"speed": above 0}'
            raise bad_request(f"this clock takes {wanted}")
    kind = "manual" if isinstance(clock, ManualClock) else "running"
    return {"now": call.cloud.timeline.now.isoformat(timespec="milliseconds"), "kind": kind, "speed": clock.speed}


def _moment(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise bad_request(f"{text!r} is not a time such as 2026-11-20T12:00:00Z") from None
    if moment.tzinfo is None:
        raise bad_request(f"{text!r} needs a time zone")
    return moment


def _projects(call: ApiCall) -> Any:
    return {"projects": call.cloud.projects}


def _meter(call: ApiCall) -> Any:
    """The bills of all VMs and TPU nodes there ever were, and of disks while they were unattached, until `until`."""
    cloud = call.cloud
    until = _moment(call.query["until"]) if "until" in call.query else cloud.timeline.now
    project = call.query.get("project")
    vms = [vm for vm in cloud.every_vm() if project in (None, vm.project)]
    vm_bills = bills(vms, cloud.prices, until)
    disks = [disk for disk in cloud.storage.ever if project in (None, disk.project)]
    unattached = disk_bills(disks, vms, cloud.prices, until)
    nodes = node_bills([one for one in cloud.tpus.ever if project in (None, one.project)], cloud.prices, until)
    managed = thing_bills([one for one in cloud.vertex.ever if project in (None, one.project)], cloud.prices, until)
    return {
        "until": until.isoformat(timespec="milliseconds"),
        "nanos": sum(one.nanos for one in (*vm_bills, *unattached, *nodes, *managed)),
        "instances": [one.shown() for one in vm_bills],
        "disks": [one.shown() for one in unattached],
        "tpu_nodes": [one.shown() for one in nodes],
        "vertex": [one.shown() for one in managed],
    }


def _faults(call: ApiCall) -> Any:
    faults = call.cloud.faults
    if call.method == "DELETE":
        return {"cleared": faults.clear(call.query.get("kind"))}
    if call.method == "POST":
        values = dict(call.body)
        try:
            return faults.add(str(values.pop("kind", "")), **values).shown()
        except BadFault as wrong:
            raise bad_request(str(wrong)) from None
    return {"faults": [fault.shown() for fault in faults.listed()]}


def _remove_fault(call: ApiCall) -> Any:
    number = int(call.params["id"])
    if not call.cloud.faults.remove(number):
        raise not_found(f"faults/{number}")
    return {"cleared": 1}


def _events(call: ApiCall) -> Any:
    """POST {"event": "preempt", "project": ..., "name": ...} triggers it for one VM; "load" takes a "load" as well.

    With "notice", in seconds, the VM's metadata announce it first.
    """
    if call.method == "GET":
        return {"events": [*EVENTS, "load"], "loads": list(Load)}
    event, project, name = (_text(call.body, key) for key in ("event", "project", "name"))
    if event != "load":
        operation = call.cloud.trigger_after_notice(event, project, name, notice=_span(call.body, "notice"))
        return {"project": project, "name": name, "announced": event} if operation is None else operation.resource()
    wanted = _text(call.body, "load")
    if wanted not in tuple(Load):
        raise bad_request(f"unknown load {wanted!r}; expected one of {', '.join(Load)}")
    call.cloud.set_load(project, name, Load(wanted))
    return {"project": project, "name": name, "load": wanted}


def _preempt(call: ApiCall) -> Any:
    """POST {"region": ...} preempts all Spot VMs there; also by "project", "zone", "filter", "up_for" and "notice"."""
    places = {key: _text(call.body, key) for key in ("project", "region", "zone", "filter") if key in call.body}
    unknown = sorted(call.body.keys() - {*places, "up_for", "notice"})
    if unknown:
        raise bad_request(f"{unknown[0]!r} is unknown here; known are project, region, zone, filter, up_for, notice")
    up_for = _span(call.body, "up_for") or timedelta(0)
    try:
        preempted = call.cloud.reclaim(Reclaim(**places, up_for=up_for, notice=_span(call.body, "notice")))
    except BadFilter as wrong:
        raise bad_request(str(wrong)) from None
    return {
        "preempted": [
            {
                "project": vm.project,
                "zone": vm.zone,
                "name": vm.name,
                "id": str(vm.id),
                "operation": operation.name if operation is not None else None,
            }
            for vm, operation in preempted
        ]
    }


def _span(body: Mapping[str, Any], key: str) -> timedelta | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 86_400:
        raise bad_request(f"{key} must be seconds from 0 to a day, not {value!r}")
    return timedelta(seconds=value)


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Refused(400, "required", f"Required field '{key}' not specified")
    return value
