"""Looks at what of Vertex AI and Colab Enterprise bills in a project, region by region.

Each region has an address and lists of its own. A list that has shown something is read at each look; of the others of
a region one a minute, in turn, so a project without anything costs at most one request a minute and region. Where
nobody has named the regions, one in which nothing has ever been is asked every five minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError, NotFound, PermissionDenied
from costguard.gce.errors import Service, ServiceOff, first_of
from costguard.gce.fields import Garbled
from costguard.gce.pages import pages_of
from costguard.gce.session import Deadline, Http
from costguard.gce.vertex.resources import LISTS, OVER, VertexList, operations_of, parts_of, read_member
from costguard.model.instance import InstanceKey, InstanceKind, SeenInstance, Status
from costguard.model.observation import VERTEX, Presence, SeenOperation, Sighting, Unread, vertex_scope

log = logging.getLogger(__name__)

# Regions in which Vertex AI sells machines (cloud.google.com/vertex-ai/docs/general/locations, read in 2026).
REGIONS = (
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "southamerica-east1",
    "southamerica-west1",
    "europe-central2",
    "europe-north1",
    "europe-southwest1",
    "europe-west1",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "europe-west12",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "me-central1",
    "me-central2",
    "me-west1",
    "africa-south1",
)
_OFF_FOR_S = 600.0  # after which it is asked again whether a project has the API
_EVERY_S = 60.0  # between two requests about lists of a region that have shown nothing
_UNUSED_EVERY_S = 300.0  # the same in a region of which every list has been read, and none has ever shown anything
_TOGETHER = 8  # regions at once
_PAGE = "100"
_MOST_ENDED = 50  # jobs that are read one by one to learn when they ended
# A job may run for longer than its default limit of 7 days (Scheduling.timeout); one that ended while nobody looked is
# found again if it was created within:
_LOOK_BACK = timedelta(days=30)
_MARGIN = timedelta(minutes=1)  # between our clock and Google's
_ALIVE = "QUEUED", "PENDING", "RUNNING", "CANCELLING", "UPDATING"


def service_of(region: str) -> Service:
    return Service("Vertex AI", f"{region}-aiplatform.googleapis.com", "roles/aiplatform.viewer")


@dataclass(frozen=True, slots=True)
class VertexRegions:
    """The regions to look at. Where they `are_learnt`, those in which nothing has ever been are asked less often.

    With `all_at_first` the first look at a region reads all its lists, at the price of a burst of requests.
    """

    names: tuple[str, ...] = ()
    are_learnt: bool = False
    all_at_first: bool = False


NOWHERE = VertexRegions()
EVERYWHERE_AT_ONCE = VertexRegions(REGIONS, are_learnt=True, all_at_first=True)
"""All lists of all regions, for a look that no other follows."""


def regions_to_watch(names: Sequence[str], *, is_watched: bool) -> VertexRegions:
    """Returns the regions that settings name, read whole at first; all of Vertex AI where they name none."""
    if not is_watched:
        return NOWHERE
    return VertexRegions(tuple(names), all_at_first=True) if names else VertexRegions(REGIONS, are_learnt=True)


@dataclass(slots=True)
class _Region:
    """Remembers earlier looks at a region. `alive` has, by list, the ids of what was alive in it."""

    alive: dict[str, set[str]] = field(default_factory=dict)
    is_learnt: bool = False
    reads_all: bool = False  # at its next look
    next_list: int = 0
    asked_s: float = float("-inf")
    read_at: dict[str, datetime] = field(default_factory=dict)  # when this process last read a list
    was_used: bool = False  # something of it has been seen

    @property
    def every_s(self) -> float:
        is_unused = self.is_learnt and not self.was_used and len(self.read_at) == len(LISTS)
        return _UNUSED_EVERY_S if is_unused else _EVERY_S


@dataclass(slots=True)
class VertexMemory:
    regions: dict[str, _Region] = field(default_factory=dict)
    off_until_s: float = 0.0  # of the monotonic clock


@dataclass(slots=True)
class VertexLook:
    resources: list[SeenInstance] = field(default_factory=list)
    operations: list[SeenOperation] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VertexAsking:
    """Where is asked, and when. `since` is the last look before this process; None: nothing was watched before."""

    http: Http
    project: str
    deadline: Deadline
    since: datetime | None
    read_at: datetime
    now_s: float


def look_at_vertex(asking: VertexAsking, regions: VertexRegions, memory: VertexMemory) -> VertexLook:
    """Never raises a CloudError. What is missing from it may be there all the same: see `vertex_presence`."""
    look = VertexLook()
    if asking.now_s < memory.off_until_s or not regions.names:
        return look
    for region in regions.names:
        memory.regions.setdefault(region, _Region(is_learnt=regions.are_learnt, reads_all=regions.all_at_first))
    first, *others = regions.names
    try:
        looks = [_region(asking, first, memory.regions[first])]
    except PermissionDenied as error:
        # The API is enabled for a project, and the right given in it: what one region refuses all do.
        had_some = any(one.alive for one in memory.regions.values())
        if isinstance(error, ServiceOff) and not had_some:
            if not memory.off_until_s:
                log.info("project %s has nothing of Vertex AI: it has not enabled the API", asking.project)
            memory.off_until_s = asking.now_s + _OFF_FOR_S
        else:
            look.unread.append(_unread(VERTEX, asking.project, "", str(error), error.code))
        return look
    with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="vertex") as pool:
        looks += pool.map(lambda region: _other_region(asking, region, memory.regions[region]), others)
    seen: dict[str, SeenInstance] = {}
    for one in looks:
        look.unread += one.unread
        for resource in one.resources:
            seen.setdefault(resource.key.gce_id, resource)
    look.resources = list(seen.values())
    look.operations = [operation for one in look.resources for operation in operations_of(one)]
    return look


def _unread(scope: str, project: str, region: str, why: str, code: str) -> Unread:
    where = f" in {region}" if region else ""
    return Unread(scope, f"{why} What of Vertex AI runs{where} of {project} is not known.", code)


def _other_region(asking: VertexAsking, region: str, memory: _Region) -> VertexLook:
    try:
        return _region(asking, region, memory)
    except PermissionDenied as error:
        return VertexLook(unread=[_unread(vertex_scope(region), asking.project, region, str(error), error.code)])


def _region(asking: VertexAsking, region: str, memory: _Region) -> VertexLook:
    """Raises PermissionDenied."""
    look = VertexLook()
    problems: list[tuple[str, str]] = []
    for which in _due(memory, asking.now_s):
        try:
            listed = _list(asking, region, which, memory, problems)
        except PermissionDenied:
            raise
        except CloudError as error:
            problems.append((str(error), error.code))
            # What was alive may be: it stays among the lists that are read at each look.
            continue
        look.resources += listed
        memory.read_at[which.collection] = asking.read_at
        memory.was_used = memory.was_used or bool(listed)
        alive = {one.key.gce_id for one in listed if not which.filtered or one.status is not Status.STOPPED}
        if alive:
            memory.alive[which.collection] = alive
        else:
            memory.alive.pop(which.collection, None)
    if problems:
        why = first_of([words for words, _ in problems])
        look.unread.append(_unread(vertex_scope(region), asking.project, region, why, problems[0][1]))
    return look


def _due(memory: _Region, now_s: float) -> list[VertexList]:
    """The lists to read now: those that have shown something, and once a minute the next of the others."""
    if memory.reads_all:
        memory.reads_all, memory.asked_s = False, now_s
        return list(LISTS)
    due = [which for which in LISTS if which.collection in memory.alive]
    if now_s - memory.asked_s >= memory.every_s and len(due) < len(LISTS):
        while LISTS[memory.next_list % len(LISTS)] in due:
            memory.next_list += 1
        due.append(LISTS[memory.next_list % len(LISTS)])
        memory.next_list = (memory.next_list + 1) % len(LISTS)
        memory.asked_s = now_s
    return due


def _list(
    asking: VertexAsking, region: str, which: VertexList, memory: _Region, problems: list[tuple[str, str]]
) -> list[SeenInstance]:
    """The members that run, and those that ended since `since`. Raises CloudError."""
    params = {"pageSize": _PAGE, "fields": f"nextPageToken,{which.collection}({which.fields})"}
    since = memory.read_at.get(which.collection, asking.since)
    if which.filtered:
        params["filter"] = _filter(since, is_first=which.collection not in memory.read_at)
    what = f"Listing {which.collection} in {region}"
    path = f"/v1/projects/{quote(asking.project, safe=':')}/locations/{region}/{which.collection}"
    listed: list[SeenInstance] = []
    service = service_of(region)
    pages = pages_of(
        asking.http, path, params, project=asking.project, what=what, deadline=asking.deadline, service=service
    )
    for page in pages:
        members = page.get(which.collection, [])  # an empty list is left out
        if not isinstance(members, list):
            raise BadAnswer(f"{what} of project {asking.project}: its {which.collection} are no list.")
        listed += _read(asking, region, which, members, problems)
    if which.filtered:
        listed += _ended(asking, region, which, memory, {one.key.gce_id for one in listed}, problems)
    return [one for one in listed if _is_new(one, since) or not which.filtered]


def _read(
    asking: VertexAsking, region: str, which: VertexList, members: Sequence[Any], problems: list[tuple[str, str]]
) -> list[SeenInstance]:
    seen: list[SeenInstance] = []
    for raw in (part for member in members for part in parts_of(which, member)):
        try:
            seen += read_member(which, asking.project, region, raw)
        except Garbled as error:
            problems.append((f"Of the {which.collection} in {region} one could not be read: {error}.", "bad_answer"))
    return seen


def _filter(since: datetime | None, *, is_first: bool) -> str:
    """Jobs that are not over, and those made since. A process that begins looks further back for what has ended."""
    clauses = [f'state="JOB_STATE_{state}"' for state in _ALIVE]
    if since is not None:
        made_since = since - (_LOOK_BACK if is_first else _MARGIN)
        clauses.append(f'create_time>="{made_since:%Y-%m-%dT%H:%M:%SZ}"')
    return " OR ".join(clauses)


def _is_new(one: SeenInstance, since: datetime | None) -> bool:
    """Says whether it runs, or ended since: what ended earlier is in the ledger, or was never watched."""
    if one.status is not Status.STOPPED:
        return True
    return since is not None and one.last_stopped_at is not None and one.last_stopped_at >= since - _MARGIN


def _ended(
    asking: VertexAsking,
    region: str,
    which: VertexList,
    memory: _Region,
    listed: set[str],
    problems: list[tuple[str, str]],
) -> list[SeenInstance]:
    """Jobs that ran at the last look and are not listed any more, read one by one: they say when they ended."""
    gone = [gce_id for gce_id in memory.alive.get(which.collection, ()) if gce_id not in listed]
    seen: list[SeenInstance] = []
    for path in list(dict.fromkeys(_path_of(gce_id) for gce_id in gone))[:_MOST_ENDED]:
        try:
            raw = _get(asking.http, asking.project, path, asking.deadline)
        except NotFound:
            continue
        except CloudError as error:
            problems.append((str(error), error.code))
            continue
        seen += _read(asking, region, LISTS[0], [raw], problems)
    return seen


def _path_of(gce_id: str) -> str:
    """`us-central1/customJobs/45` of `vertex.customJobs.us-central1.45.1`."""
    _, collection, region, resource, *_ = gce_id.split(".")
    return f"{region}/{collection}/{resource}"


def _get(http: Http, project: str, path: str, deadline: Deadline) -> dict[str, Any]:
    region, _, rest = path.partition("/")
    return http.get_json(
        f"/v1/projects/{quote(project, safe=':')}/locations/{region}/{quote(rest)}",
        {},
        project=project,
        what=f"Reading {rest} in {region}",
        deadline=deadline,
        service=service_of(region),
    )


def look_at_one(http: Http, key: InstanceKey, deadline: Deadline) -> Sighting | None:
    """Reads what of a resource bills under this id; None where it is not there. Raises CloudError."""
    try:
        raw = _get(http, key.project, _path_of(key.gce_id), deadline)
    except NotFound:
        return None
    _, collection, region, *_ = key.gce_id.split(".")
    which = next(one for one in LISTS if one.collection == collection)
    try:
        read = read_member(which, key.project, region, raw)
    except Garbled as error:
        raise BadAnswer(f"Reading {key.gce_id} of project {key.project}: {error}.") from None
    one = next((one for one in read if one.key == key), None)
    if one is None:
        return None
    return Sighting(key.gce_id, one.status, one.last_started_at, one.labels, one.origin)


def vertex_presence(http: Http, key: InstanceKey, deadline: Deadline) -> Presence:
    """Asks for this one resource. It is gone where Google says that it is over, or does not find it and yet answers
    for the list that it would be in: what Google's 404 says of a resource is not recorded, and a proxy has one, too.
    """
    path = _path_of(key.gce_id)
    region, collection, _ = path.split("/")
    try:
        raw = _get(http, key.project, path, deadline)
    except NotFound:
        return Presence.GONE if _answers(http, key.project, region, collection, deadline) else Presence.NOT_KNOWN
    except CloudError as error:
        log.warning("whether %s of %s is still there is not known: %s", key.gce_id, key.project, error)
        return Presence.NOT_KNOWN
    if key.kind is InstanceKind.DEPLOYED_MODEL:
        models = raw.get("deployedModels") or ()
        part = key.gce_id.rpartition(".")[2]
        is_there = any(str(model.get("id")) == part for model in models if isinstance(model, dict))
        return Presence.THERE if is_there else Presence.GONE if _names(raw, path) else Presence.NOT_KNOWN
    if key.kind is InstanceKind.CUSTOM_JOB:
        state = str(raw.get("state") or "")
        return Presence.GONE if state in OVER else Presence.THERE if state else Presence.NOT_KNOWN
    return Presence.THERE if _names(raw, path) else Presence.NOT_KNOWN


def _names(raw: dict[str, Any], path: str) -> bool:
    return str(raw.get("name") or "").endswith(f"/locations/{path}")


def _answers(http: Http, project: str, region: str, collection: str, deadline: Deadline) -> bool:
    what = f"Listing {collection} in {region}"
    path = f"/v1/projects/{quote(project, safe=':')}/locations/{region}/{collection}"
    try:
        answer = http.get_json(
            path, {"pageSize": "1"}, project=project, what=what, deadline=deadline, service=service_of(region)
        )
    except CloudError:
        return False
    return isinstance(answer.get(collection, []), list)
