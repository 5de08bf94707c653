"""What every request that changes something has in common: it is answered by an operation, and only done once."""

from __future__ import annotations

import re

from costguard_sandbox.gce.errors import invalid
from costguard_sandbox.gce.making import Maker
from costguard_sandbox.gce.operations import Operation, OperationLog, Target
from costguard_sandbox.gce.timeline import Timeline

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Requests:
    """Writes the operation log of all projects. The world is locked during all calls."""

    def __init__(self, timeline: Timeline, log: OperationLog, maker: Maker) -> None:
        self._timeline = timeline
        self._log = log
        self._make = maker

    def earlier(self, project: str, request_id: str) -> Operation | None:
        """The operation that this request id began before. Raises Refused for an id that is no UUID."""
        if request_id and (not _UUID.fullmatch(request_id) or not request_id.strip("0-")):
            raise invalid("requestId", request_id, "Must be a UUID other than zero.")
        return self._log.earlier(project, request_id)

    def begin(self, kind: str, target: Target, user: str, request_id: str = "", group: str = "") -> Operation:
        operation = self._make.operation(kind, target, user, self._timeline.now, request_id=request_id)
        operation.group = group
        self._log.add(operation)
        return operation

    def begin_bulk(self, project: str, scope: str, user: str, request_id: str) -> Operation:
        """The operation of a bulk insert. Its id is its group's, which all of its inserts share."""
        operation = self.begin("bulkInsert", Target(project, scope, "instances", 0), user, request_id)
        operation.group = operation.name.removeprefix("operation-")
        return operation

    def system_event(self, kind: str, target: Target, text: str) -> Operation:
        """Nobody asked for it, so there is nothing to wait for: it is over as it appears."""
        operation = self._make.system_event(kind, target, self._timeline.now, text)
        self._log.add(operation)
        return operation
