"""From when on someone is asked about a VM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from costguard.model.duration import elapsed, span_text
from costguard.model.preset import Preset
from costguard.model.reminder import Keep, StorageRule
from costguard.model.utilisation import Evidence, IdleState


@dataclass(frozen=True, slots=True)
class DueMoment:
    """The due moment, past or to come, and the state of things in words.

    `firm_at` is the same without weak evidence of idleness: what may stop a VM goes by it. None: never.
    """

    at: datetime
    why: str
    firm_at: datetime | None
    is_weak: bool = False  # only weak evidence makes it due by now


def due_of_run(
    preset: Preset | None, running_since: datetime, idle: Evidence | None, keeps: Collection[Keep], now: datetime
) -> DueMoment | None:
    """When its limit passes, or it came to be known as idle before that, and not within a keep.

    None without a limit, idle or not. What is not known of idleness makes nothing due.
    """
    if preset is None or preset.limit is None:
        return None
    over_at = running_since + preset.limit
    idle_at = _idle_at(preset, running_since, idle)
    at = firm_at = over_at
    if idle_at is not None and idle_at < over_at:
        at = idle_at
        firm_at = over_at if idle is not None and idle.is_weak else idle_at
    until = kept_to(keeps)
    if until is not None:
        at, firm_at = max(at, until), max(firm_at, until)
    return DueMoment(
        at, why_running(preset, preset.name, running_since, idle, now), firm_at, is_weak=at <= now < firm_at
    )


def due_of_rest(
    rule: StorageRule, rest_since: datetime, keeps: Collection[Keep], what: str, now: datetime
) -> DueMoment | None:
    """When its storage has billed for long enough to ask about it. `what` is `stopped` or `suspended`."""
    if rule.after is None:
        return None
    at, until = rest_since + rule.after, kept_to(keeps)
    at = at if until is None else max(at, until)
    return DueMoment(at, f"{what} for {span_text(elapsed(rest_since, now))}, and its storage is billed", None)


def kept_to(keeps: Collection[Keep]) -> datetime | None:
    return max(keep.until for keep in keeps) if keeps else None


def why_running(preset: Preset | None, name: str, running_since: datetime, idle: Evidence | None, now: datetime) -> str:
    """`past the limit of preset t4 (8 h) by 2 h, idle for 3 h`"""
    age, suffix = elapsed(running_since, now), _idle_text(idle, now)
    if preset is None or preset.limit is None:
        return f"runs for {span_text(age)}; preset {name} sets no limit{suffix}"
    limit = _limit_text(preset.limit)
    if age < preset.limit:
        return f"runs for {span_text(age)} of the {limit} that preset {name} allows{suffix}"
    return f"past the limit of preset {name} ({limit}) by {span_text(age - preset.limit)}{suffix}"


_limit_text = lru_cache(span_text)  # few limits, many VMs


def _idle_at(preset: Preset, running_since: datetime, idle: Evidence | None) -> datetime | None:
    """When it was established: idleness is known at the end of its window."""
    if idle is None or idle.state is not IdleState.IDLE or preset.idle is None:
        return None
    return max(idle.since, running_since) + preset.idle.window


def _idle_text(idle: Evidence | None, now: datetime) -> str:
    if idle is None or idle.state is not IdleState.IDLE:
        return ""
    return f", idle for {span_text(elapsed(idle.since, now))}{' by CPU and network alone' if idle.is_weak else ''}"


def past_limit(preset: Preset | None, running_since: datetime, now: datetime) -> bool:
    return preset is not None and preset.limit is not None and now - running_since >= preset.limit
