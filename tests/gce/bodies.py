"""Small answers of Compute Engine, built by hand: what a test does not name is ordinary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.gce.server import Answer, Asked, json_answer

ROOT = "https://www.googleapis.com/compute/v1/projects/p"
ZONE = "us-central1-a"
_KINDS = {
    "instances": "compute#instanceAggregatedList",
    "disks": "compute#diskAggregatedList",
    "operations": "compute#operationAggregatedList",
}


def instance(name: str = "trainer", gce_id: str = "101", zone: str = ZONE, **changes: Any) -> dict[str, Any]:
    """A running N1 with a boot disk; a change to None leaves that key out."""
    body = {
        "id": gce_id,
        "name": name,
        "status": "RUNNING",
        "creationTimestamp": "2026-11-01T02:00:00.123-07:00",
        "lastStartTimestamp": "2026-11-01T02:00:12.500-07:00",
        "machineType": f"{ROOT}/zones/{zone}/machineTypes/n1-standard-4",
        "labels": {"owner": "ada"},
        "disks": [
            {
                "type": "PERSISTENT",
                "source": f"{ROOT}/zones/{zone}/disks/{name}",
                "diskSizeGb": "50",
                "boot": True,
                "autoDelete": True,
            }
        ],
        "scheduling": {"preemptible": False, "provisioningModel": "STANDARD"},
    }
    body.update(changes)
    return {key: value for key, value in body.items() if value is not None}


def single(name: str = "trainer", gce_id: str = "101", zone: str = ZONE, **changes: Any) -> dict[str, Any]:
    """A VM as it is read by itself, with what Google says it is and where."""
    body = {**instance(name, gce_id, zone), "kind": "compute#instance", "zone": f"{ROOT}/zones/{zone}", **changes}
    return {key: value for key, value in body.items() if value is not None}


def disk(name: str = "trainer", zone: str = ZONE, **changes: Any) -> dict[str, Any]:
    return {
        "id": "5731447681477044785",
        "name": name,
        "type": f"{ROOT}/zones/{zone}/diskTypes/pd-balanced",
        "sizeGb": "50",
        "creationTimestamp": "2026-11-01T01:59:58.000-07:00",
        **changes,
    }


def operation(number: int, at: str, zone: str = ZONE, **changes: Any) -> dict[str, Any]:
    """A stop of `trainer`, inserted, started and done at `at`."""
    return {
        "id": str(number),
        "name": f"operation-{number}",
        "operationType": "stop",
        "targetId": "101",
        "targetLink": f"{ROOT}/zones/{zone}/instances/trainer",
        "user": "ada@example.com",
        "status": "DONE",
        "insertTime": at,
        "startTime": at,
        "endTime": at,
        **changes,
    }


def page(collection: str, members: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A page of an aggregated list. `members` maps a scope to its members, or to a whole scoped list."""
    items = {
        scope: content if isinstance(content, dict) else {collection: content} for scope, content in members.items()
    }
    items.setdefault("zones/far-away1-a", {"warning": {"code": "NO_RESULTS_ON_PAGE"}})
    return {"kind": _KINDS[collection], "items": items, **more}


Reply = dict[str, Any] | Answer | Callable[[Asked], Answer]


def cloud_of(**replies: Reply | Sequence[Reply]) -> Callable[[Asked], Answer]:
    """An answerer for the three lists. A list of replies is used up in order, its last one for ever."""
    defaults: dict[str, Any] = {
        "instances": page("instances", {f"zones/{ZONE}": [instance()]}),
        "disks": page("disks", {f"zones/{ZONE}": [disk()]}),
        "operations": page("operations", {}),
    }
    queues = {name: list(r) if isinstance(r, Sequence) else [r] for name, r in (defaults | replies).items()}

    def answer(request: Asked) -> Answer:
        queue = queues[request.path.rsplit("/", 1)[-1]]
        reply = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(reply, Answer):
            return reply
        return reply(request) if callable(reply) else json_answer(reply)

    return answer
