"""The result of one check of a set-up, in one line: ok, in need of one command, or not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CheckState(StrEnum):
    OK = "ok"
    NEEDS = "needs"
    UNKNOWN = "unknown"  # it could not be asked, or the answer says nothing


class Topic(StrEnum):
    """The parts of a check, in their order."""

    CREDENTIALS = "credentials"
    PERMISSIONS = "permissions"
    APIS = "apis"
    PRESETS = "presets"
    QUOTAS = "quotas"
    BUCKETS = "buckets"
    BILL = "bill"
    EVENTS = "events"
    SLACK = "slack"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `command` mends what is needed; of something unknown, it is what would find it out.

    `name` is stable, for programs: `compute.disks.list`, `scope chat:write`. `where` is a project, a bucket, a channel.
    """

    topic: Topic
    name: str
    state: CheckState
    sentence: str
    command: str = ""
    where: str = ""

    @property
    def is_ok(self) -> bool:
        return self.state is CheckState.OK


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A question without a usable answer. `why` is a sentence; `code` the short word for it, such as "permission"."""

    why: str
    code: str = ""

    @property
    def is_refused(self) -> bool:
        """The account may not ask it."""
        return self.code == "permission"


@dataclass(frozen=True, slots=True)
class SetupReport:
    """The findings of one check, in their order, and when it ended."""

    as_of: datetime
    findings: Sequence[Finding]


def ok(topic: Topic, name: str, sentence: str, where: str = "") -> Finding:
    return Finding(topic, name, CheckState.OK, sentence, "", where)


def needs(topic: Topic, name: str, sentence: str, command: str, where: str = "") -> Finding:
    return Finding(topic, name, CheckState.NEEDS, sentence, command, where)


def unknown(topic: Topic, name: str, sentence: str, where: str = "", command: str = "") -> Finding:
    return Finding(topic, name, CheckState.UNKNOWN, sentence, command, where)


def worst(findings: Iterable[Finding]) -> CheckState:
    """The state of all together: a need weighs more than what is not known."""
    states = {one.state for one in findings}
    return next((state for state in (CheckState.NEEDS, CheckState.UNKNOWN) if state in states), CheckState.OK)


def in_order(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Sorts them by topic; within one they stay as they came."""
    topics = list(Topic)
    return sorted(findings, key=lambda one: topics.index(one.topic))
