"""The audit log: writes entries as operations begin and end, and sends them to the sink's topic.

Delays, measured on recorded entries: a first entry is stamped from .09 s before to .25 s after the millisecond in its
operation's id; a system event's entry lags by .15 to .4 s in half of them and by 17 to 101 s in the others; Logging
receives an entry .87 s after its stamp (95 % under 2 s, most 2.9 s). The way through a sink is not recorded: here 0.1
to 1 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import orjson

from costguard_sandbox.audit import entries
from costguard_sandbox.audit.entries import Entry
from costguard_sandbox.audit.faults import AuditFaults
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.operations import Operation

Publish = Callable[[str, bytes, Mapping[str, str], datetime], None]
"""Publishes data with attributes to a topic, at a moment."""

_KEPT = 20_000  # entries that tests and people can read again
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_LATE_LAGS_S = (17.0, 45.0, 70.0, 101.0)


class AuditLog:
    """Writes nothing without a sink. The fate of an entry depends on the seed and the entry alone."""

    def __init__(self, cloud: Cloud, publish: Publish, seed: int) -> None:
        self._cloud = cloud
        self._publish = publish
        self._seed = seed
        self._refusals = 0
        self._bulk_methods: dict[str, str] = {}  # of bulk inserts, by the group of their VMs' operations
        self.topic = ""  # of the sink
        self.faults = AuditFaults()
        self.written: deque[Entry] = deque(maxlen=_KEPT)  # as the log has them, whatever became of them
        self.lost: list[Entry] = []  # that faults dropped
        self.doubled = self.torn = self.foreign = 0
        cloud.operations.begun, cloud.operations.done = self._begun, self._done
        cloud.on_refusal = self._refused

    def send_to(self, topic: str) -> None:
        """Makes the sink: entries from now on go to this topic; "" ends it."""
        self.topic = topic

    def _begun(self, operation: Operation, request: Mapping[str, Any]) -> None:
        if operation.kind == entries.BULK:
            self._bulk_methods[operation.group] = entries.method_of(operation)[0]
        if not self.topic or entries.is_system(operation) or self._of_bulk(operation):
            return
        draw = self._draw(f"{operation.name}/first")
        at = operation.insert_time + _seconds(_between(draw, ((0, -0.09), (0.5, -0.03), (1, 0.25))))
        self._send(entries.first_entry(operation, request, _insert_id(draw), at), "first", at, draw)

    def _done(self, operation: Operation) -> None:
        if not self.topic:
            return
        if entries.is_system(operation):
            draw = self._draw(f"{operation.name}/system")
            lag = draw.uniform(0.15, 0.4) if draw.random() < 0.5 else draw.choice(_LATE_LAGS_S)
            at = operation.insert_time + _seconds(lag)
            self._send(entries.system_entry(operation, _insert_id(draw), at), "system", at, draw)
            return
        draw = self._draw(f"{operation.name}/last")
        at = self._cloud.timeline.now + _seconds(draw.uniform(0, 0.3))
        if method := self._of_bulk(operation):
            self._send(entries.bulk_child_entry(operation, method, _insert_id(draw), at), "bulk", at, draw)
            return
        self._send(entries.last_entry(operation, _insert_id(draw), at), "last", at, draw)

    def _of_bulk(self, operation: Operation) -> str:
        """Returns the method of the bulk insert that an insert is of; "" for all other operations."""
        return self._bulk_methods.get(operation.group, "") if operation.kind == "insert" and operation.group else ""

    def _refused(self, method: str, path: str, user: str, body: Mapping[str, Any], refused: Refused) -> None:
        if not self.topic:
            return
        self._refusals += 1
        draw, at = self._draw(f"refused-{self._refusals}"), self._cloud.timeline.now
        entry = entries.refused_entry(method, path, user, body, refused, _insert_id(draw), at)
        if entry is not None:
            self._send(entry, "refused", at, draw)

    def _send(self, entry: Entry, part: str, at: datetime, draw: Random) -> None:
        received_at = at + _seconds(_between(draw, ((0, 0.3), (0.5, 0.87), (0.95, 2.0), (1, 2.9))))
        entry = entries.received(entry, received_at)
        self.written.append(entry)
        arrives_at = received_at + _seconds(draw.uniform(0.1, 1.0))
        fate = self._draw(f"{entry['logName']}/{entry['insertId']}/fate")
        faults = self.faults
        is_lost, is_double, is_torn, is_foreign = (
            faults.met(kind, part, fate) for kind in ("drop", "double", "torn", "foreign")
        )
        late, again = faults.late_s(part, fate), faults.late_s(part, fate) + fate.uniform(0, 5)
        if is_foreign:
            self.foreign += 1
            self._at(arrives_at, orjson.dumps(entries.foreign_entry(self.foreign, arrives_at)))
        if is_lost:
            self.lost.append(entry)
            return
        data = orjson.dumps(entry)
        if is_torn:
            self.torn += 1
            data = data[: len(data) // 2]
        self._at(arrives_at + _seconds(late), data)
        if is_double:
            self.doubled += 1
            self._at(arrives_at + _seconds(again), data)

    def _at(self, moment: datetime, data: bytes) -> None:
        topic = self.topic
        # As the sinks of Cloud Logging set it: the time of the entry, as one attribute.
        attributes = {"logging.googleapis.com/timestamp": self._cloud.timeline.now.isoformat()}
        self._cloud.timeline.at(moment, lambda: self._publish(topic, data, attributes, self._cloud.timeline.now))

    def _draw(self, subject: str) -> Random:
        return Random(f"{self._seed}/audit/{subject}")


def _insert_id(draw: Random) -> str:
    """Begins with a hyphen now and then, as recorded ones do."""
    letters = "".join(draw.choices(_LETTERS, k=12))
    return f"-{letters[1:]}" if draw.random() < 0.2 else letters


def _between(draw: Random, points: tuple[tuple[float, float], ...]) -> float:
    """A value from a distribution of (share of cases, seconds), with straight lines between the points."""
    share = draw.random()
    for (low, shortest), (high, longest) in pairwise(points):
        if share <= high:
            return shortest + (longest - shortest) * (share - low) / (high - low)
    return points[-1][1]


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
