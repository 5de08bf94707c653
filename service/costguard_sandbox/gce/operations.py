"""Operations: what users requested of the cloud or what it did by itself, with the outcome."""

from __future__ import annotations

import random
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.errors import invalid
from costguard_sandbox.gce.timeline import Timeline

_HTTP_WORDS = {
    400: "BAD REQUEST",
    403: "FORBIDDEN",
    404: "NOT FOUND",
    409: "CONFLICT",
    412: "PRECONDITION FAILED",
    503: "SERVICE UNAVAILABLE",
}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an accepted request failed."""

    code: str
    message: str
    http: int
    details: tuple[dict[str, Any], ...] = ()
    others: tuple[Failure, ...] = ()  # further errors of the same operation

    def errors(self) -> list[dict[str, Any]]:
        shown: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            shown["errorDetails"] = list(self.details)
        return [shown, *(error for other in self.others for error in other.errors())]


@dataclass(frozen=True, slots=True)
class Target:
    """The resource that an operation acts on.

    `scope` is `global`, `regions/R` or `zones/Z`; `path` is `instances/NAME` there.
    """

    project: str
    scope: str
    path: str
    id: int

    @property
    def resource(self) -> str:
        """Returns the name of the resource in Google's errors."""
        return f"projects/{self.project}/{self.scope}/{self.path}"


@dataclass(slots=True, eq=False)
class Operation:
    """An operation. `ends_at` is planned in advance, so that `wait` can sleep exactly until then."""

    id: int
    name: str
    project: str
    scope: str  # `global`, `regions/R` or `zones/Z`
    kind: str  # the operationType
    target_link: str
    target_id: int
    user: str
    insert_time: datetime
    ends_at: datetime
    base: str
    start_time: datetime | None = None
    end_time: datetime | None = None
    status_message: str = ""
    request_id: str = ""
    failure: Failure | None = None
    group: str = ""  # shared by a bulk insert and its single inserts
    bulk: Callable[[], dict[str, Any]] | None = None  # the progress of a bulk insert, zone by zone
    on_end: Callable[[Operation], object] | None = field(default=None, repr=False)
    _rendered: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def status(self) -> str:
        if self.end_time is not None:
            return "DONE"
        return "PENDING" if self.start_time is None else "RUNNING"

    @property
    def is_done(self) -> bool:
        return self.end_time is not None

    def begin(self, at: datetime) -> None:
        self.start_time = at
        self._rendered = None

    def finish(self, at: datetime, failure: Failure | None = None) -> None:
        if self.start_time is None:
            self.start_time = at
        self.end_time = self.ends_at = at
        self.failure = failure
        self._rendered = None
        if self.on_end is not None:
            self.on_end(self)

    def resource(self) -> dict[str, Any]:
        """The operation as the API shows it. Callers share it and must not change it."""
        if self.bulk is not None:
            return {**self._render(), "instancesBulkInsertOperationMetadata": self.bulk()}
        if self._rendered is None:
            self._rendered = self._render()
        return self._rendered

    def _target(self) -> dict[str, str]:
        """Shows the target: of a bulk insert its project, as recorded (GoogleCloudPlatform/gce-license-tracker)."""
        if self.kind == "bulkInsert":
            link = f"{self.base}/projects/{self.project}"
            return {"targetLink": link, "targetId": str(project_number(self.project))}
        return {"targetLink": self.target_link, **({"targetId": str(self.target_id)} if self.target_id else {})}

    def _render(self) -> dict[str, Any]:
        scope_link = f"{self.base}/projects/{self.project}/{self.scope}"
        kind, _, _ = self.scope.partition("/")
        shown: dict[str, Any] = {
            "kind": "compute#operation",
            "id": str(self.id),
            "name": self.name,
            **({} if kind == "global" else {kind.removesuffix("s"): scope_link}),
            "operationType": self.kind,
            **self._target(),
            "status": self.status,
            "progress": 100 if self.is_done else 0,
            "insertTime": pacific(self.insert_time),
        }
        if self.user:
            shown["user"] = self.user
        if self.request_id:
            shown["clientOperationId"] = self.request_id
        if self.group:
            shown["operationGroupId"] = self.group
        if self.status_message:
            shown["statusMessage"] = self.status_message
        if self.start_time is not None:
            shown["startTime"] = pacific(self.start_time)
        if self.end_time is not None:
            shown["endTime"] = pacific(self.end_time)
        if self.failure is not None:
            shown["error"] = {"errors": self.failure.errors()}
            shown["httpErrorStatusCode"] = self.failure.http
            shown["httpErrorMessage"] = _HTTP_WORDS[self.failure.http]
        shown["selfLink"] = f"{scope_link}/operations/{self.name}"
        return shown


class Ids:
    """Ids of VMs, disks and operations: they depend on the seed and on how many were drawn before."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"{seed}/ids")

    def draw(self) -> int:
        return self.random.randrange(10**17, 2**63)


class OperationLog:
    """The operations of all projects, oldest first. Callers hold the cloud's lock.

    `begun` is called with each that a user or a service began and its request, `done` with each that ended.
    """

    def __init__(self, timeline: Timeline, ids: Ids, links: str, retention: timedelta) -> None:
        self.retention = retention
        self._timeline = timeline
        self._ids = ids
        self._links = links
        self._kept: OrderedDict[tuple[str, str], Operation] = OrderedDict()
        self._by_request: dict[tuple[str, str], Operation] = {}
        self.begun: Callable[[Operation, Mapping[str, Any]], object] = lambda _operation, _request: None
        self.done: Callable[[Operation], object] = lambda _operation: None

    def begin(
        self,
        kind: str,
        target: Target,
        user: str,
        request_id: str = "",
        group: str = "",
        request: Mapping[str, Any] | None = None,
    ) -> Operation:
        operation = self._add("operation", kind, target, user, request_id)
        operation.group = group
        self.begun(operation, request or {})
        return operation

    def begin_bulk(
        self, project: str, scope: str, user: str, request_id: str, request: Mapping[str, Any] | None = None
    ) -> Operation:
        """The operation of a bulk insert, whose id is the group id of all its inserts."""
        target = Target(project, scope, "instances", 0)
        operation = self._add("operation", "bulkInsert", target, user, request_id)
        operation.group = operation.name.removeprefix("operation-")
        self.begun(operation, request or {})
        return operation

    def record_event(self, kind: str, target: Target, text: str) -> Operation:
        """A system event, done at once. A managed group's repairs are named repair- and have no user."""
        user, prefix = ("", "repair") if kind.startswith("repair.") else ("system", "systemevent")
        event = self._add(prefix, f"compute.instances.{kind}", target, user)
        event.status_message = text
        event.finish(self._timeline.now)
        return event

    def _add(self, prefix: str, kind: str, target: Target, user: str, request_id: str = "") -> Operation:
        now = self._timeline.now
        bits = self._ids.random.getrandbits(116)
        ms = (now - _EPOCH) // timedelta(milliseconds=1)
        operation = Operation(
            id=self._ids.draw(),
            name=f"{prefix}-{ms}-{bits >> 64:013x}-{bits >> 32 & 0xFFFFFFFF:08x}-{bits & 0xFFFFFFFF:08x}",
            project=target.project,
            scope=target.scope,
            kind=kind,
            target_link=f"{self._links}/{target.resource}",
            target_id=target.id,
            user=user,
            insert_time=now,
            ends_at=now,
            base=self._links,
            request_id=request_id,
            on_end=self.done,
        )
        self._kept[operation.project, operation.name] = operation
        if request_id:
            self._by_request[operation.project, request_id] = operation
        return operation

    def find(self, project: str, scope: str, name: str) -> Operation | None:
        """Finds an operation by name, or by the numeric id that the API accepts instead."""
        operation = self._kept.get((project, name))
        if operation is None and name.isdecimal():
            operation = next((one for one in self.of(project) if one.id == int(name)), None)
        return operation if operation is not None and operation.scope == scope else None

    def repeated(self, project: str, request_id: str) -> Operation | None:
        """The operation that this request id began before. Raises Refused for an id that is not a UUID."""
        if request_id and (not _UUID.fullmatch(request_id) or not request_id.strip("0-")):
            raise invalid("requestId", request_id, "Must be a UUID other than zero.")
        return self._by_request.get((project, request_id)) if request_id else None

    def of(self, project: str) -> Iterator[Operation]:
        return (operation for (owner, _), operation in self._kept.items() if owner == project)

    def drop_expired(self) -> None:
        """Drop what Google no longer keeps; an operation that is not done always stays."""
        horizon = self._timeline.now - self.retention
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.end_time is None or oldest.end_time >= horizon:
                return
            del self._kept[key]
            self._by_request.pop((oldest.project, oldest.request_id), None)
