"""Whether a rule may still stop a VM, asked again right before it is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from costguard.engine import reminding
from costguard.model.reminder import Subject
from costguard.policy.due import due_of_run
from costguard.policy.enforcement import stop_at
from costguard.policy.protection import protected_because
from costguard.policy.reminder import standing_of
from costguard.policy.rules import Rules
from costguard.policy.watched import subject_of


class StillDue(Protocol):
    def __call__(self, connection: Connection, subject: Subject, labels: Mapping[str, str], now: datetime, /) -> str:
        """Why a rule must leave it alone now; "" where it is as due as it was. `labels` are those of this moment."""
        ...


class ByTheRules:
    """Judged anew with what the ledger knows by now: an answer, a new label or a new setting undoes an old decision."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, connection: Connection, subject: Subject, labels: Mapping[str, str], now: datetime) -> str:
        if self._rules.is_shadow:
            return "rules stop nothing while [enforcement] shadow is true"
        fleet = reminding.gather(connection, self._rules, now, [subject.instance_id])
        vm = next((each for each in fleet if subject_of(each) == subject), None)
        if vm is None or vm.running_since is None:
            return "it does not run any more"
        if vm.job:
            return f"job {vm.job}, which it works on, has its own limits"
        protection = protected_because(vm.name, vm.key.project, labels, self._rules.protection)
        if protection:
            return f"it is protected by {protection}"
        preset = self._rules.presets.get(vm.preset)
        due = due_of_run(preset, vm.running_since, vm.idle, vm.keeps, now)
        if preset is None or due is None:
            return f"preset {vm.preset} sets no limit any more"
        at = stop_at(preset.reminders, standing_of(vm.sent, vm.cycle), due, protection)
        if at is None or at > now:
            return "somebody answered, or it is not due any more"
        return ""
