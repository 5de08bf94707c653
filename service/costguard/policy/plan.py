"""What to do about every VM: an action, or the reason to leave it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.model.instance import InstanceKey, Status
from costguard.model.preset import Preset
from costguard.model.utilisation import Evidence, IdleState
from costguard.policy.narrate import span_text


@dataclass(frozen=True, slots=True)
class Watched:
    """What a decision about one VM rests on."""

    key: InstanceKey
    name: str
    zone: str
    status: Status
    preset: str
    running_since: datetime | None
    idle: Evidence | None = None  # what is known of its idleness; None: nothing


@dataclass(frozen=True, slots=True)
class Decision:
    """Why this VM is left alone. `overdue` says that its preset's limit has passed."""

    key: InstanceKey
    name: str
    reason: str
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One decision for every VM that is there, in the order in which they were given."""

    decisions: tuple[Decision, ...] = ()

    @property
    def overdue(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.overdue)


def decide(
    fleet: Sequence[Watched], presets: Mapping[str, Preset], unread: Mapping[str, frozenset[str]], now: datetime
) -> Plan:
    """`unread` holds the zones of each project that the last look could not read; "*" stands for all."""
    return Plan(
        tuple(_decide(vm, presets.get(vm.preset), unread.get(vm.key.project, frozenset()), now) for vm in fleet)
    )


def _decide(vm: Watched, preset: Preset | None, unread: frozenset[str], now: datetime) -> Decision:
    def leave(reason: str, overdue: bool = False) -> Decision:
        return Decision(vm.key, vm.name, reason, overdue)

    if vm.zone in unread or "*" in unread:
        return leave(f"not known: {vm.zone} could not be read, so nothing is decided about it")
    if vm.running_since is None:
        return leave(f"{vm.status.value}: only what it stores is billed")
    age = now - vm.running_since
    idle = _idle(vm.idle, now)
    if preset is None or preset.limit is None:
        return leave(f"runs for {span_text(age)}; preset {vm.preset} sets no limit{idle}")
    if age <= preset.limit:
        return leave(f"runs for {span_text(age)} of the {span_text(preset.limit)} that preset {vm.preset} allows{idle}")
    late = span_text(age - preset.limit)
    return leave(
        f"past the limit of preset {vm.preset} ({span_text(preset.limit)}) by {late}{idle}; no reminder is sent",
        overdue=True,
    )


def _idle(found: Evidence | None, now: datetime) -> str:
    if found is None or found.state is not IdleState.IDLE:
        return ""
    return f", idle for {span_text(now - found.since)}{' by CPU and network alone' if found.is_weak else ''}"
