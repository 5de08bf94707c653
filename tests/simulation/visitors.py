"""Operators and admins who look at a page, and ask for a stop there without waiting for any message."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from tests.scenario.fleet import MINUTE
from tests.simulation.guard import Process
from tests.simulation.settings import ADMIN, PROJECT

from costguard.access.roles import role_of
from costguard.errors import Conflict, Forbidden, Missing
from costguard.model.access import PERMISSIONS, Principal, Via
from costguard.model.instance import InstanceKey
from costguard.model.reminder import RequestKind
from costguard.reminders import requests
from costguard_sandbox.gce.vm import VM, Status

if TYPE_CHECKING:
    from tests.simulation.life import Life

_IMPATIENT = 0.5  # the chance that they look again soon, or once a stop was sent to a VM that still runs
_AGAIN = (0.2, 0.4, 1, 3, 8)  # minutes until then
_FIRST = 4  # the VMs at the top of the page, which run for longest


class Visitors:
    """They look above all for what was to be stopped and still runs."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._visits = self._stops = 0
        self._next_at: datetime | None = None
        self.are_gone = not life.plan.presses or not life.plan.aim.pages

    def next_at(self) -> datetime | None:
        """Returns when a person looks again."""
        life, seen = self._life, self._stops
        self._stops = len(life.wire.stops)
        sent = {stop.vm_id for stop in life.wire.stops[seen:]}
        if not self.are_gone and any(str(vm.id) in sent for vm in self._shown()):
            lot = life.plan.lot("page after a stop", self._stops)
            self._next_at = life.now + lot.choice(_AGAIN) * MINUTE if lot.random() < _IMPATIENT else self._next_at
        return self._next_at

    def come(self, process: Process) -> None:
        """Looks at the page now and then, and again within minutes; called before each pass."""
        life, lot = self._life, self._life.plan.lot("page", self._visits)
        self._visits += 1
        is_back = self._next_at is not None and self._next_at <= life.now
        if self.are_gone or not (is_back or lot.random() < life.plan.aim.pages):
            return
        self._next_at = life.now + lot.choice(_AGAIN) * MINUTE if lot.random() < _IMPATIENT else None
        shown = sorted(self._shown(), key=lambda vm: vm.runs[-1].began)
        stops_by_vm = Counter(stop.vm_id for vm in shown for stop in life.wire.stops if stop.at > vm.runs[-1].began)
        waiting = [vm for vm in shown if stops_by_vm[str(vm.id)]]
        if shown:
            self._ask(process, lot.choice(waiting or shown[:_FIRST]), lot)

    def _shown(self) -> list[VM]:
        life = self._life
        return [vm for vm in life.world.instances(PROJECT) if vm.status is Status.RUNNING and vm.id in life.fleet.made]

    def _ask(self, process: Process, vm: VM, lot: random.Random) -> None:
        life = self._life
        rules = life.operators.in_force.at(life.now)
        by = lot.choice([ADMIN, *sorted(rules.access.operators)])
        role = role_of(by, rules.access)
        try:
            wish = requests.RequestWish(RequestKind.STOP, idempotency_key=str(self._visits))
            principal, key = Principal(by, role, PERMISSIONS[role], Via.OIDC), InstanceKey(PROJECT, str(vm.id))
            requests.ask(process.database, life.guard_clock, rules, principal, key, wish, wake=lambda: None)
            life.counts["stops asked for on a page"] += 1
        except (Conflict, Forbidden, Missing):  # no look has seen it, or it is another's
            life.counts["refused on a page"] += 1
