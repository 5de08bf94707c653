"""Bounds the number of values that the label `project` has in metrics: some by name, the others together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from costguard.ledger.projects import ProjectLook

MOST_PROJECTS = 100
"""The projects that metrics name, at most; all others are together: 500 would be 500 times the series."""
OTHERS = "other"
"""The label's value of all other projects; a project's id has six letters or more.

https://cloud.google.com/resource-manager/docs/creating-managing-projects#before_you_begin
"""
_NEWS = timedelta(minutes=20)  # a project whose last complete look is older has a series of its own

_T = TypeVar("_T")


def dearest(projects: Iterable[str], nanos: Mapping[str, int]) -> Callable[[str], str]:
    """Returns what to call a project: itself where no more than a hundred are dearer, or OTHERS. Pure."""
    ranked = sorted(set(projects), key=lambda project: (-nanos.get(project, 0), project))
    named = frozenset(ranked[:MOST_PROJECTS])
    return lambda project: project if project in named else OTHERS


def troubled(looks: Sequence[ProjectLook], now: datetime) -> Callable[[str], str]:
    """Returns what to call a project in metrics of its looks; of many, those with troubles by name. Pure.

    Which have troubles changes seldom: series that come and go with each pass would be as many as all projects.
    """
    if len(looks) <= MOST_PROJECTS:
        return lambda project: project
    names = sorted((not look.is_unread, look.project) for look in looks if _has_trouble(look, now))
    named = frozenset(project for _, project in names[:MOST_PROJECTS])
    return lambda project: project if project in named else OTHERS


def gathered(
    values: Iterable[tuple[str, _T]], called: Callable[[str], str], together: Callable[[_T, _T], _T]
) -> dict[tuple[str], _T]:
    """Puts the values of projects with one name together. Pure."""
    result: dict[tuple[str], _T] = {}
    for project, value in values:
        key = (called(project),)
        result[key] = together(result[key], value) if key in result else value
    return result


def _has_trouble(look: ProjectLook, now: datetime) -> bool:
    return bool(look.unread) or look.last_complete_at is None or now - look.last_complete_at > _NEWS
