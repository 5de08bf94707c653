"""Budgets: an amount, a scope and a period."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from costguard.model.money import Money


class Period(StrEnum):
    """A UTC day, a week from Monday, or a calendar month."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class AtLimit(StrEnum):
    """The action once a budget is spent, until its period ends. Each includes the actions of those before it."""

    TELL = "tell"
    REFUSE = "refuse"  # no VM is launched for a job that counts against it
    STOP_SPOT = "stop-spot"  # and jobs' Spot VMs are stopped, once they have saved


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """VMs while their label had this value; None: while they had no such label, which "" is not."""

    label: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> LabelFilter:
        """`experiment=a` or `experiment:a`; `!experiment` is for VMs without the label. Raises ValueError.

        No key of Google's holds "=", ":" or "!".
        Source: cloud.google.com/compute/docs/labeling-resources#requirements
        """
        match = _SPLIT.fullmatch(text.strip())
        if match is None:
            raise ValueError("a label with its value, such as experiment=a, or !experiment for VMs without it")
        return cls(match["without"], None) if match["without"] else cls(match["label"], match["value"])

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Says whether a VM with these labels counts."""
        return labels.get(self.label) == self.value

    def __str__(self) -> str:
        return f"!{self.label}" if self.value is None else f"{self.label}={self.value}"


_KEY = r"[^\s/,=:!\x00]{1,63}"
# A keeper's `cluster/pool` may be longer than a label's 63, and a kind of resource has spaces: `custom job`.
_VALUE = r"(?:[^\s\x00](?:(?:[^\s\x00]| ){0,125}[^\s\x00])?)?"
LABEL_FILTER = rf"^(!{_KEY}|{_KEY}[=:]{_VALUE})$"
_SPLIT = re.compile(rf"!(?P<without>{_KEY})|(?P<label>{_KEY})[=:](?P<value>{_VALUE})")


@dataclass(frozen=True, slots=True)
class Scope:
    """The spend that a budget counts. Every part that is given must hold; nothing given counts everything."""

    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    team: str | None = None
    job: str | None = None
    label: LabelFilter | None = None

    def holds(self, project: str, preset: str, owner: str, job: str) -> bool:
        """Says whether spend of this project, preset, owner and job counts.

        The team and the label are not checked: the settings hold the team's members, and the label changes with time.
        """
        return (  # written out: a page asks it of thousands of groups
            self.project in (None, project)
            and self.preset in (None, preset)
            and self.owner in (None, owner)
            and self.job in (None, job)
        )

    @property
    def columns(self) -> dict[str, str]:
        """Returns the parts that are columns of what is spent, as far as they are given."""
        given = {"project": self.project, "preset": self.preset, "owner": self.owner, "job": self.job}
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        names = ("project", "preset", "owner", "team", "job", "label")
        parts = {name: getattr(self, name) for name in names}
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None) or "everything"


@dataclass(frozen=True, slots=True)
class Budget:
    """Thresholds are whole percents of the limit, each told once a period."""

    name: str
    scope: Scope
    limit: Money
    period: Period
    thresholds: tuple[int, ...] = (50, 80, 100)  # on what is spent
    forecast_thresholds: tuple[int, ...] = (100,)  # on what will have been spent at the period's end
    contact: str = ""  # the address of who answers for it
    at_limit: AtLimit = AtLimit.TELL


class LimitPart(StrEnum):
    """The part by which a fleet limit is kept for each value apart, such as for each owner."""

    OWNER = "owner"
    TEAM = "team"
    PROJECT = "project"
    PRESET = "preset"


@dataclass(frozen=True, slots=True)
class FleetLimit:
    """The most VMs, GPUs or dollars an hour at once in a scope, or in it for each owner, team, project or preset.

    The scope names no job. Other VMs than jobs' count too where `counts_others` says so; none of them is ever stopped.
    """

    name: str
    scope: Scope
    for_each: LimitPart | None = None
    vms: int | None = None
    gpus: int | None = None
    dollars_per_hour: Money | None = None
    counts_others: bool = True
