"""Budgets: an amount, a scope and a period."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from costguard.model.money import Money


class Period(StrEnum):
    """A UTC day, a week from Monday, or a calendar month."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class AtLimit(StrEnum):
    """What is done once all of a budget is spent, until its period ends. Each does what those before it do."""

    TELL = "tell"
    REFUSE = "refuse"  # no VM is launched for a job that counts against it
    STOP_SPOT = "stop-spot"  # and jobs' Spot VMs are stopped, once they have saved


@dataclass(frozen=True, slots=True)
class Scope:
    """What a budget counts. Every part that is given must hold; nothing given counts everything."""

    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    team: str | None = None
    job: str | None = None

    def holds(self, project: str, preset: str, owner: str, job: str) -> bool:
        """Whether what is these people's counts. A team is not looked at: who is in it stands in the settings."""
        given = ((self.project, project), (self.preset, preset), (self.owner, owner), (self.job, job))
        return all(wanted is None or wanted == value for wanted, value in given)

    def __str__(self) -> str:
        names = ("project", "preset", "owner", "team", "job")
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
