"""A job as it is asked for, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from costguard.jobs import credentials
from costguard.model.job import JobSpec


@dataclass(frozen=True, slots=True)
class Overrides:
    """What this job wants otherwise than the preset's recipe has it; None leaves it."""

    zones: tuple[str, ...] | None = None
    spot: bool | None = None
    machine_type: str | None = None
    disk_gib: int | None = None
    max_run: timedelta | None = None
    on_demand_fallback: bool | None = None
    image: str | None = None  # to boot from


@dataclass(frozen=True, slots=True)
class Submission:
    """Without a project it is the one that is watched, where there is only one."""

    spec: JobSpec
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True, slots=True)
class Refusal:
    """`where` is the part of what was asked; `message` is one sentence with what to change."""

    where: str
    message: str


def shown(text: str) -> str:
    """A text in a sentence: short, in quotes, and hidden where it may be a credential."""
    return "What was given" if credentials.in_text(text) else repr(text if len(text) <= 80 else text[:77] + "...")
