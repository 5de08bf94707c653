"""Every reader of Google's answers, with a wrong value at each place of one thing: the other thing is read still."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

import orjson
import pytest
from tests.gce.bodies import ROOT, ZONE, disk, instance, operation

from costguard.errors import BadAnswer
from costguard.gce.disks import list_disks
from costguard.gce.listing import join, list_instances, unread_of
from costguard.gce.loose import list_loose
from costguard.gce.machine_types import by_rule
from costguard.gce.operations import list_operations
from costguard.gce.session import Deadline, Http
from costguard.gce.tpu_nodes import TpuMemory, look_at_nodes
from costguard.gce.tpu_queue import with_tpus
from costguard.gce.vertex.look import VertexAsking, VertexMemory, VertexRegions, look_at_vertex
from costguard.model.instance import SeenInstance
from costguard.model.observation import LooseThing, PlannedReservation, SeenOperation

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
AT = "2026-11-01T02:00:00Z"
_SCOPE = f"zones/{ZONE}"
_HOLE = "@hole@"
_DIGITS = "9" * 5_000
ATTACKS = (
    "null",
    "true",
    "-5",
    '"-5"',
    "1" + "0" * 30,
    f'"{_DIGITS}"',
    "1e300",
    '""',
    "[]",
    "{}",
    "[null]",
    '"zones/"',
    '"a\\u0000\\u202eb"',
    '"0001-01-01T00:00:00+12:00"',
    '"9999-12-31T23:59:59-12:00"',
    '"9999999999999x99999999999999"',
    '{"a":' * 300 + "1" + "}" * 300,
    "[" * 1_000 + "]" * 1_000,
    f'"{"x" * 100_000}"',
)
_SEEN = SeenInstance | SeenOperation | LooseThing | PlannedReservation


class _Canned(Http):
    """Answers the path that ends so with one body, and every other path with an empty list of its kind."""

    def __init__(self, path: str, body: bytes) -> None:
        super().__init__("http://nowhere", credentials=None, timeout_s=1, wait=lambda _: False)
        self._path, self._body = path, body

    def get_json(self, path: str, *_: Any, loads: Callable[[bytes], Any] = orjson.loads, **__: Any) -> dict[str, Any]:
        try:
            answer = loads(self._body) if path.endswith(self._path) else {"kind": _KINDS.get(path.rpartition("/")[2])}
        except orjson.JSONDecodeError:
            raise BadAnswer("the answer is not JSON") from None
        assert isinstance(answer, dict)
        return answer


_KINDS = {
    "instances": "compute#instanceAggregatedList",
    "disks": "compute#diskAggregatedList",
    "operations": "compute#operationAggregatedList",
    "addresses": "compute#addressAggregatedList",
    "reservations": "compute#reservationAggregatedList",
    "futureReservations": "compute#futureReservationsAggregatedListResponse",
    "snapshots": "compute#snapshotList",
    "images": "compute#imageList",
}


def _deadline() -> Deadline:
    return Deadline(60.0, lambda: 0.0)


def _look(http: Http) -> tuple[Sequence[_SEEN], Sequence[object]]:
    listing = list_instances(http, "p", _deadline(), {}, lambda: None, {})
    disks = list_disks(http, "p", _deadline(), {})
    fleet = join("p", listing, disks.details, {}, lambda _, name: by_rule(name))
    return list(fleet.seen.values()), unread_of("p", listing, fleet, disks)


def _operations(http: Http) -> tuple[Sequence[_SEEN], Sequence[object]]:
    listing = list_operations(http, "p", _deadline(), NOW - timedelta(days=90), order_holds=True, settled={})
    return list(listing.operations.values()), [listing.unread] if listing.unread else []


def _loose(http: Http) -> tuple[Sequence[_SEEN], Sequence[object]]:
    listing = list_loose(http, "p", _deadline(), lambda _, name: by_rule(name))
    listing = with_tpus(http, "p", _deadline(), listing)
    return [*listing.things, *listing.planned], listing.unread


def _nodes(http: Http) -> tuple[Sequence[_SEEN], Sequence[object]]:
    look = look_at_nodes(http, "p", _deadline(), TpuMemory(), 100.0)
    return [*look.nodes, *look.operations], look.unread


def _vertex(http: Http) -> tuple[Sequence[_SEEN], Sequence[object]]:
    asking = VertexAsking(http, "p", _deadline(), NOW - timedelta(days=60), NOW, 100.0)
    regions = VertexRegions(("us-central1",), all_at_first=True)
    look = look_at_vertex(asking, regions, VertexMemory())
    return look.resources, look.unread


def _in_zone(collection: str) -> Callable[[list[Any]], dict[str, Any]]:
    return lambda things: {"kind": _KINDS[collection], "items": {_SCOPE: {collection: things}}}


def _plain(collection: str) -> Callable[[list[Any]], dict[str, Any]]:
    return lambda things: {"kind": _KINDS[collection], "items": things}


_RESERVED = {
    "machineType": "n1-standard-4",
    "guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}],
    "localSsds": [{"diskSizeGb": "375"}],
}


def _instance(name: str) -> dict[str, Any]:
    return instance(
        name,
        "101" if name == "bad" else "102",
        guestAccelerators=[{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}],
        networkInterfaces=[{"accessConfigs": [{"natIP": "192.0.2.1"}]}],
        resourceStatus={
            "scheduling": {"terminationTimestamp": AT},
            "reservationConsumptionInfo": {"consumedReservation": f"{ROOT}/{_SCOPE}/reservations/r"},
        },
        scheduling={"maxRunDuration": {"seconds": "3600", "nanos": 5}, "gracefulShutdown": {"enabled": True}},
    )


def _operation(name: str) -> dict[str, Any]:
    error = {"errors": [{"code": "QUOTA", "message": "too many"}]}
    return operation(1 if name == "bad" else 2, AT, error=error, name=name, httpErrorStatusCode=400)


def _address(name: str) -> dict[str, Any]:
    return {"name": name, "status": "RESERVED", "addressType": "EXTERNAL", "creationTimestamp": AT, "labels": {"a": ""}}


def _snapshot(name: str) -> dict[str, Any]:
    size = {"storageBytes": "5", "archiveSizeBytes": "5", "sourceDisk": f"{ROOT}/{_SCOPE}/disks/d"}
    return {"name": name, "creationTimestamp": AT, "storageLocations": ["us"], "labels": {"a": ""}, **size}


def _reservation(name: str) -> dict[str, Any]:
    specific = {"count": "4", "inUseCount": "1", "instanceProperties": _RESERVED}
    return {"name": name, "creationTimestamp": AT, "deleteAtTime": AT, "specificReservation": specific}


def _future(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": "owner=ana",
        "reservationMode": "CALENDAR",
        "timeWindow": {"startTime": AT, "duration": {"seconds": "86400"}},
        "autoCreatedReservationsDeleteTime": AT,
        "status": {"procurementStatus": "FULFILLED", "autoCreatedReservations": [f"{ROOT}/{_SCOPE}/reservations/r"]},
        "specificSkuProperties": {"totalCount": "2", "instanceProperties": _RESERVED},
    }


def _queued(name: str) -> dict[str, Any]:
    node = {"acceleratorType": "v5p-8", "acceleratorConfig": {"type": "V5P", "topology": "2x2x1"}, "labels": {"a": "b"}}
    return {
        "name": f"projects/p/locations/{ZONE}/queuedResources/{name}",
        "createTime": AT,
        "spot": {},
        "state": {"state": "FAILED", "failedData": {"error": {"message": "none left"}}},
        "tpu": {"nodeSpec": [{"multisliceParams": {"nodeCount": 2}, "node": node}]},
    }


def _node(name: str) -> dict[str, Any]:
    return {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "id": "8" if name == "bad" else "9",
        "acceleratorType": "v5p-8",
        "acceleratorConfig": {"type": "V5P", "topology": "2x2x1"},
        "state": "READY",
        "createTime": AT,
        "schedulingConfig": {"spot": True},
        "labels": {"a": "b"},
        "dataDisks": [{"sourceDisk": f"projects/p/{_SCOPE}/disks/{name}"}],
    }


_MACHINE = {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 1}


def _job(name: str) -> dict[str, Any]:
    pool = {"machineSpec": _MACHINE, "replicaCount": "2", "diskSpec": {"bootDiskSizeGb": 100}}
    spec = {"workerPoolSpecs": [pool], "scheduling": {"strategy": "SPOT"}}
    times = {"state": "JOB_STATE_RUNNING", "createTime": AT, "startTime": AT}
    return {"name": f"projects/1/locations/z/customJobs/{name}", "displayName": name, "jobSpec": spec, **times}


def _model(name: str) -> dict[str, Any]:
    machines = {"machineSpec": _MACHINE, "minReplicaCount": 1}
    return {"id": name, "displayName": name, "createTime": AT, "dedicatedResources": machines}


def _runtime(name: str) -> dict[str, Any]:
    return {
        "name": f"projects/1/locations/z/notebookRuntimes/{name}",
        "displayName": name,
        "runtimeState": "RUNNING",
        "runtimeUser": "ana@example.com",
        "createTime": AT,
        "machineSpec": _MACHINE,
        "dataPersistentDiskSpec": {"diskType": "pd-standard", "diskSizeGb": "100"},
        "idleShutdownConfig": {"idleTimeout": "10800s"},
    }


class _Reader(NamedTuple):
    """A reader, the list that it is attacked in, and how a thing of a name is listed there."""

    read: Callable[[Http], tuple[Sequence[_SEEN], Sequence[object]]]
    path: str
    listed: Callable[[list[Any]], dict[str, Any]]
    thing: Callable[[str], dict[str, Any]]


_ENDPOINT = {"name": "projects/1/locations/z/endpoints/7", "createTime": AT}
READERS = {
    "instances": _Reader(_look, "/aggregated/instances", _in_zone("instances"), _instance),
    "operations": _Reader(_operations, "/aggregated/operations", _in_zone("operations"), _operation),
    "disks": _Reader(_loose, "/aggregated/disks", _in_zone("disks"), disk),
    "addresses": _Reader(_loose, "/aggregated/addresses", _in_zone("addresses"), _address),
    "snapshots": _Reader(_loose, "/global/snapshots", _plain("snapshots"), _snapshot),
    "images": _Reader(_loose, "/global/images", _plain("images"), _snapshot),
    "reservations": _Reader(_loose, "/aggregated/reservations", _in_zone("reservations"), _reservation),
    "future": _Reader(_loose, "/aggregated/futureReservations", _in_zone("futureReservations"), _future),
    "queued": _Reader(_loose, "/queuedResources", lambda things: {"queuedResources": things}, _queued),
    "nodes": _Reader(_nodes, "/nodes", lambda things: {"nodes": things}, _node),
    "jobs": _Reader(_vertex, "/customJobs", lambda things: {"customJobs": things}, _job),
    "models": _Reader(
        _vertex, "/endpoints", lambda things: {"endpoints": [{**_ENDPOINT, "deployedModels": things}]}, _model
    ),
    "runtimes": _Reader(_vertex, "/notebookRuntimes", lambda things: {"notebookRuntimes": things}, _runtime),
}


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from _places(member, (*path, key))


def _with(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    value = orjson.loads(orjson.dumps(value))
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def _spoilt(listed: Any, path: tuple[str | int, ...]) -> Iterator[bytes]:
    """The list with each of the attacks at this place; they are JSON that no Python value is written as."""
    text = orjson.dumps(_with(listed, path, _HOLE)).decode()
    for attack in ATTACKS:
        yield text.replace(f'"{_HOLE}"', attack, 1).encode()


def _must_be_sane(one: _SEEN) -> None:
    """Fails for negative money, and for what a database or an addition to a time could not take."""
    if isinstance(one, SeenInstance):
        shape, numbers = one.shape, [one.shape.gpu_count, one.shape.local_ssd_gib, *(d.size_gib for d in one.disks)]
        assert 0 <= min(numbers) <= max(numbers) < 2**62, shape
        assert one.key.gce_id.isascii()
        assert len(one.key.gce_id) < 2_000
        times = [one.created_at, one.last_started_at, one.last_stopped_at, one.termination_at]
    elif isinstance(one, SeenOperation):
        assert all(text is None or type(text) is str for text in (one.error_code, one.error_message))
        times = [one.inserted_at, one.started_at, one.ended_at]
    elif isinstance(one, LooseThing):
        assert 0 <= one.quantity < Fraction(2**62)
        assert all(type(value) is str for value in one.labels.values())
        times = [one.created_at, one.unused_since, one.ends_at]
    else:
        assert 0 <= one.count < 2**62
        times = [one.starts_at, one.ends_at, one.reservation_ends_at]
    assert all(2008 <= at.year < 3100 for at in times if at is not None)


@pytest.mark.parametrize("kind", READERS)
def test_thing_that_is_spoilt_anywhere_hides_no_other(kind: str) -> None:
    """The reader does not fail either, whatever is sent in the place of any value of the thing."""
    reader = READERS[kind]
    good = reader.thing("good")
    alone, unread = reader.read(_Canned(reader.path, orjson.dumps(reader.listed([good]))))
    assert (len(alone), list(unread)) == (1, [])
    for path in _places(bad := reader.thing("bad")):
        for body in _spoilt(reader.listed([bad, good]), _place_of(reader, path)):
            seen, _ = reader.read(_Canned(reader.path, body))
            assert alone[0] in seen, (path, body[:300])
            for one in seen:
                _must_be_sane(one)


def _place_of(reader: _Reader, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place of the first thing in its list, and in it the path."""
    return next(place for place in _places(reader.listed(["first"])) if _at(reader.listed(["first"]), place)) + path


def _at(listed: Any, path: tuple[str | int, ...]) -> bool:
    for key in path:
        listed = listed[key]
    return bool(listed == "first")


@pytest.mark.parametrize("kind", READERS)
def test_list_that_is_spoilt_around_its_things_is_unread_or_read(kind: str) -> None:
    """A reader that cannot read a list says so; it raises nothing, and what it cannot read is never taken for read."""
    reader = READERS[kind]
    listed = {**reader.listed([reader.thing("good")]), "unreachables": [""], "unreachable": [""]}
    depth = 3 if reader.path.startswith("/aggregated/") else 1
    for path in _places(listed):
        for body in _spoilt(listed, path) if 0 < len(path) <= depth else ():
            seen, unread = reader.read(_Canned(reader.path, body))
            assert seen or unread or _is_nothing(body, path), (path, body[:300])


def _is_nothing(body: bytes, path: tuple[str | int, ...]) -> bool:
    """Says that an empty value, or none, stands in the place of the list: so Google says that there is nothing."""
    inner = orjson.loads(body)
    for key in path:
        inner = inner[key]
    return not inner
