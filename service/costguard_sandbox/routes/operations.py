"""zoneOperations.* and the list of all operations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from costguard_sandbox.catalogue.places import OPERATION_SCOPES
from costguard_sandbox.operations import Operation
from costguard_sandbox.problems import not_found
from costguard_sandbox.routes.call import Call, compute
from costguard_sandbox.routes.lists import aggregated_list, plain_list, refuse_unreachable, zone_scope
from costguard_sandbox.world import World

LONGEST_WAIT_SECONDS = 120.0
_STEP_SECONDS = 0.05


def routes(world: World) -> list[Route]:
    operation = "/projects/{project}/zones/{zone}/operations/{name}"
    return [
        compute("/projects/{project}/aggregated/operations", _aggregated, world),
        compute("/projects/{project}/zones/{zone}/operations", _list, world),
        compute(operation, _get, world),
        compute(f"{operation}/wait", _get, world, "POST", before=_wait),
    ]


def _aggregated(call: Call) -> Any:
    rows = [operation.resource() for operation in call.world.operations.of(call.project)]
    return aggregated_list(call, "compute#operationAggregatedList", "operations", rows, OPERATION_SCOPES, zone_scope)


def _list(call: Call) -> Any:
    zone = call.params["zone"]
    refuse_unreachable(call, zone)
    rows = [
        operation.resource()
        for operation in call.world.operations.of(call.project)
        if operation.scope == f"zones/{zone}"
    ]
    return plain_list(call, "compute#operationList", rows)


def _get(call: Call) -> Any:
    refuse_unreachable(call, call.params["zone"])
    return _found(call.world, call.params).resource()


async def _wait(world: World, params: Mapping[str, str]) -> None:
    """Hold the answer until the operation is done, for two of the world's minutes at the most.

    On a clock that is moved by hand it does not hold at all, unless waiting is what moves it.
    """
    with world.settled():
        operation = world.operations.find(params["project"], f"zones/{params['zone']}", params["name"])
    if operation is None:
        return
    while world.wait_moves_clock and not operation.is_done:
        with world.settled():
            world.advance_to(max(operation.ends_at, world.timeline.now))
        if not operation.is_done:  # it waits for processes, whose time no hand moves
            await asyncio.sleep(_STEP_SECONDS)
    speed = world.clock.speed
    if not speed:
        return
    left = LONGEST_WAIT_SECONDS / speed
    while not operation.is_done and left > 0:
        with world.settled():
            ahead = (operation.ends_at - world.timeline.now).total_seconds() / speed
        nap = min(left, max(ahead, 0.001), _STEP_SECONDS if ahead <= 0 else ahead)
        await asyncio.sleep(nap)
        left -= nap
        with world.settled():
            pass


def _found(world: World, params: Mapping[str, str]) -> Operation:
    project, zone, name = params["project"], params["zone"], params["name"]
    operation = world.operations.find(project, f"zones/{zone}", name)
    if operation is None:
        raise not_found(f"projects/{project}/zones/{zone}/operations/{name}")
    return operation
