"""Presets: a kind of VM, and how long it may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from costguard.model.instance import TPUS
from costguard.model.launch import Recipe
from costguard.model.reminder import ReminderRule
from costguard.model.utilisation import IdleRule


@dataclass(frozen=True, slots=True)
class Match:
    """The conditions that recognise a VM. Every part that is given must hold; nothing given matches nothing."""

    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_types: frozenset[str] = frozenset()
    gpu_count_min: int = 0
    gpu_count_max: int | None = None

    @property
    def of_tpus(self) -> bool:
        """Says whether it recognises VMs by TPUs alone."""
        return bool(self.gpu_types) and self.gpu_types <= TPUS


@dataclass(frozen=True, slots=True)
class Preset:
    """`limit` is how long one lifetime may last before its owner is asked; None means never.

    Without an `idle` rule it is not asked whether its VMs are idle. Without a `launch` no VM of it can be launched.
    """

    name: str
    match: Match
    limit: timedelta | None
    description: str = ""
    idle: IdleRule | None = None
    reminders: ReminderRule = field(default_factory=ReminderRule)
    launch: Recipe | None = None
    dev_image: str = ""  # what development VMs boot from; "" is the recipe's
    may_override: tuple[str, ...] = ()  # what of the recipe operators may have otherwise; admins may all


OTHER = "other"
