"""What to do about every VM: an action, or the reason to leave it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from costguard.model.person import Acquaintance
from costguard.policy.due import due_of_run, past_limit, why_running
from costguard.policy.rules import Rules
from costguard.policy.watched import Decision, Plan, Watched, subject_of

__all__ = ["Decision", "Plan", "Watched", "decide", "subject_of"]


def decide(
    fleet: Sequence[Watched],
    rules: Rules,
    unread: Mapping[str, frozenset[str]],
    people: Mapping[str, Acquaintance],
    now: datetime,
) -> Plan:
    """`unread` holds the zones of each project that the last look could not read; "*" stands for all.

    `people` are those who were looked up, by their addresses in lower case.
    """
    return Plan(tuple(_decide(vm, rules, unread.get(vm.key.project, frozenset()), now) for vm in fleet))


def _decide(vm: Watched, rules: Rules, unread: frozenset[str], now: datetime) -> Decision:
    if vm.zone in unread or "*" in unread:
        return Decision(vm.key, vm.name, f"not known: {vm.zone} could not be read, so nothing is decided about it")
    if vm.running_since is None:
        return Decision(vm.key, vm.name, f"{vm.status.value}: only what it stores is billed")
    preset = rules.presets.get(vm.preset)
    due = due_of_run(preset, vm.running_since, vm.idle, vm.keeps, now)
    if due is None:
        return Decision(vm.key, vm.name, why_running(preset, vm.preset, vm.running_since, vm.idle, now))
    late = past_limit(preset, vm.running_since, now) and due.at <= now
    rest = "; no reminder is sent: Slack is not set up" if due.at <= now else ""
    return Decision(vm.key, vm.name, f"{due.why}{rest}", late, subject_of(vm), due.at)
