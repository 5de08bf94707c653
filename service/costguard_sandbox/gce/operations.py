"""Operations: what was asked of the simulated cloud, or what it did by itself, and how that went."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.clock import pacific

_HTTP_WORDS = {400: "BAD REQUEST", 403: "FORBIDDEN", 404: "NOT FOUND", 409: "CONFLICT", 503: "SERVICE UNAVAILABLE"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an accepted request came to nothing."""

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
    """What an operation acts on. `scope` is `global`, `regions/R` or `zones/Z`; `path` is `instances/NAME` there."""

    project: str
    scope: str
    path: str
    id: int

    @property
    def resource(self) -> str:
        """As Google's errors name it."""
        return f"projects/{self.project}/{self.scope}/{self.path}"


@dataclass(slots=True, eq=False)
class Operation:
    """`ends_at` is known to the world beforehand, so that `wait` can sleep exactly as long as needed."""

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
    group: str = ""  # shared by a bulk insert and by the inserts that it consists of
    bulk: Callable[[], dict[str, Any]] | None = None  # how far a bulk insert is, place by place
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

    def resource(self) -> dict[str, Any]:
        """The operation as the API shows it. Shared between answers: not to be changed."""
        if self.bulk is not None:
            return {**self._render(), "instancesBulkInsertOperationMetadata": self.bulk()}
        if self._rendered is None:
            self._rendered = self._render()
        return self._rendered

    def _render(self) -> dict[str, Any]:
        scope_link = f"{self.base}/projects/{self.project}/{self.scope}"
        kind, _, _ = self.scope.partition("/")
        shown: dict[str, Any] = {
            "kind": "compute#operation",
            "id": str(self.id),
            "name": self.name,
            **({} if kind == "global" else {kind.removesuffix("s"): scope_link}),
            "operationType": self.kind,
            "targetLink": self.target_link,
            **({"targetId": str(self.target_id)} if self.target_id else {}),
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


class OperationLog:
    """All operations that are still kept, oldest first."""

    def __init__(self, retention: timedelta) -> None:
        self.retention = retention
        self._kept: OrderedDict[tuple[str, str], Operation] = OrderedDict()
        self._by_request: dict[tuple[str, str], Operation] = {}

    def add(self, operation: Operation) -> None:
        self._kept[operation.project, operation.name] = operation
        if operation.request_id:
            self._by_request[operation.project, operation.request_id] = operation

    def find(self, project: str, scope: str, name: str) -> Operation | None:
        """By name, or by the numeric id that the API takes in a name's place."""
        found = self._kept.get((project, name))
        if found is None and name.isdecimal():
            found = next((operation for operation in self.of(project) if operation.id == int(name)), None)
        return found if found is not None and found.scope == scope else None

    def earlier(self, project: str, request_id: str) -> Operation | None:
        """The outcome that this very request had before, if it was made before."""
        return self._by_request.get((project, request_id)) if request_id else None

    def of(self, project: str) -> Iterator[Operation]:
        return (operation for (owner, _), operation in self._kept.items() if owner == project)

    def forget_before(self, now: datetime) -> None:
        """Drop what Google no longer keeps; an operation still under way always stays."""
        horizon = now - self.retention
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.end_time is None or oldest.end_time >= horizon:
                return
            del self._kept[key]
            self._by_request.pop((oldest.project, oldest.request_id), None)
