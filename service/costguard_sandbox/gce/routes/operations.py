"""zoneOperations.*, regionOperations.*, globalOperations.* and the list of all operations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue.regions import OPERATION_SCOPES
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list, refuse_unreachable

LONGEST_WAIT_SECONDS = 120.0
_STEP_SECONDS = 0.05


def routes(cloud: Cloud) -> list[Route]:
    routes = [compute("/projects/{project}/aggregated/operations", _aggregated, cloud)]
    for scope in ("zones/{zone}", "regions/{region}", "global"):
        operation = f"/projects/{{project}}/{scope}/operations/{{name}}"
        routes += [
            compute(f"/projects/{{project}}/{scope}/operations", _list, cloud),
            compute(operation, _get, cloud),
            compute(f"{operation}/wait", _get, cloud, "POST", before=_wait),
        ]
    return routes


def _aggregated(call: ApiCall) -> Any:
    rows = [operation.resource() for operation in call.cloud.operations.of(call.project)]
    return aggregated_list(call, "compute#operationAggregatedList", "operations", rows, OPERATION_SCOPES, _scope_of)


def _list(call: ApiCall) -> Any:
    scope = _scope(call.params)
    _refuse_unreachable(call)
    rows = [operation.resource() for operation in call.cloud.operations.of(call.project) if operation.scope == scope]
    return plain_list(call, "compute#operationList", rows)


def _get(call: ApiCall) -> Any:
    _refuse_unreachable(call)
    return _found(call.cloud, call.params).resource()


def _scope(params: Mapping[str, str]) -> str:
    if "zone" in params:
        return f"zones/{params['zone']}"
    return f"regions/{params['region']}" if "region" in params else "global"


def _scope_of(row: Mapping[str, Any]) -> str:
    for kind in ("zone", "region"):
        if kind in row:
            return f"{kind}s/{row[kind].rsplit('/', 1)[-1]}"
    return "global"


def _refuse_unreachable(call: ApiCall) -> None:
    if "zone" in call.params:
        refuse_unreachable(call, call.params["zone"])


async def _wait(cloud: Cloud, params: Mapping[str, str]) -> None:
    """Delay the answer until the operation is done, for at most two simulated minutes.

    With a manual clock there is no delay; with `wait_moves_clock`, waiting moves the clock.
    """
    with cloud.settled():
        operation = cloud.operations.find(params["project"], _scope(params), params["name"])
    if operation is None:
        return
    while cloud.wait_moves_clock and not operation.is_done:
        with cloud.settled():
            cloud.advance_to(max(operation.ends_at, cloud.timeline.now))
        if not operation.is_done:  # it waits for local processes, which run in real time
            await asyncio.sleep(_STEP_SECONDS)
    speed = cloud.clock.speed
    if not speed:
        return
    left = LONGEST_WAIT_SECONDS / speed
    while not operation.is_done and left > 0:
        with cloud.settled():
            ahead = (operation.ends_at - cloud.timeline.now).total_seconds() / speed
        nap = min(left, max(ahead, 0.001), _STEP_SECONDS if ahead <= 0 else ahead)
        await asyncio.sleep(nap)
        left -= nap
        with cloud.settled():
            pass


def _found(cloud: Cloud, params: Mapping[str, str]) -> Operation:
    project, scope, name = params["project"], _scope(params), params["name"]
    operation = cloud.operations.find(project, scope, name)
    if operation is None:
        raise not_found(f"projects/{project}/{scope}/operations/{name}")
    return operation
