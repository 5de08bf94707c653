"""What the page of health shows: the value of /readyz, part by part, each with what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.daemon.health import Health, ProjectState, Verdict, health
from costguard.db import health_rows as stored
from costguard.errors import StoreError
from costguard.model.duration import span_text
from costguard.model.mending import command_for
from costguard.model.observation import Unread
from costguard.pages.prices import OLD
from costguard.pages.source import Source

_KINDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_SAID = {
    Verdict.READY: "All is well.",
    Verdict.DEGRADED: "It works, and something needs you.",
    Verdict.NOT_READY: "What is shown here cannot be relied on.",
}


@dataclass(frozen=True, slots=True)
class Part:
    """Of a project, what could not be read. `command` is what helps, "" where no one command does."""

    unread: Unread
    command: str


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    last_complete_at: datetime | None
    last_tried_at: datetime
    age: timedelta | None
    is_stale: bool
    is_unread: bool
    vms: int
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Base:
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class Shown:
    """`base` is None where the database did not answer."""

    found: Health
    sentence: str
    detail: str
    projects: Sequence[Project]
    holder: str  # of the daemon's lease, or who held it last; "" before the first
    is_held: bool
    prices_are_old: bool
    refused: Mapping[str, int]  # from Slack, by reason
    base: Base | None


def health_page(source: Source) -> Shown:
    found = health(source)
    daemon = next(iter(found.holders), None)
    return Shown(
        found=found,
        sentence=_SAID[found.verdict],
        detail=_detail(found),
        projects=[_project(state) for state in found.projects],
        holder=daemon.lease.holder if daemon is not None else "",
        is_held=any(each.is_held for each in found.holders),
        prices_are_old=found.prices_age is not None and found.prices_age > OLD,
        refused=found.slack_refused,
        base=_base(source) if found.has_answered else None,
    )


def _detail(of: Health) -> str:
    if of.verdict is Verdict.NOT_READY:
        return "The reasons are below; the first is the one to begin with."
    if of.verdict is Verdict.DEGRADED:
        number = len(of.warnings)
        what = "One thing is not as it should be" if number == 1 else f"{number} things are not as they should be"
        return f"{what}; the rest is fresh."
    ages = [state.age for state in of.projects if state.age is not None]
    oldest = f", the oldest look {span_text(max(ages))} ago" if ages else ""
    number = len(of.projects)
    return f"{number} {'project is' if number == 1 else 'projects are'} read whole{oldest}."


def _project(state: ProjectState) -> Project:
    look = state.look
    return Project(
        name=look.project,
        last_complete_at=look.last_complete_at,
        last_tried_at=look.last_tried_at,
        age=state.age,
        is_stale=state.is_stale,
        is_unread=look.is_unread,
        vms=look.instance_count,
        parts=[Part(part, command_for(look.project, part)) for part in look.unread],
    )


def _base(source: Source) -> Base | None:
    try:
        with source.database.read() as connection:
            return Base(_KINDS[connection.dialect.name], stored.size(connection))
    except StoreError:
        return None
