"""The VMs of a quarter: who makes which, for how long, and what becomes of them unless someone stops them first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.scenario.fleet import HOUR, body
from tests.scenario.quarter.guard import PROJECT

from costguard.access.rules import Access, Protection, Rules
from costguard.model.money import Money
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Enforcement, QuietRule, ReminderRule
from costguard.model.utilisation import IdleRule
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.vm import VM, Load, Status
from costguard_sandbox.world import World

DAY = 24 * HOUR
ZONES = ("us-central1-a", "us-central1-c")
CHANNEL = "gpu-costs"
CONTACT = "cleo@example.com"
OWNERS = ("ana", "ben", "chiara", "cleo", "dana", "emi", "ghost")  # nobody in Slack is the ghost
_PROGRAM = "ci@acme-training.iam.gserviceaccount.com"


def _preset(name: str, match: Match, limit: timedelta, rule: ReminderRule, window: timedelta | None = None) -> Preset:
    idle = IdleRule(500, 500, window) if window is not None else None
    return Preset(name, match, limit, idle=idle, reminders=rule)


_STOP = Enforcement.STOP
PRESETS = (
    _preset(
        "notebook",
        Match(labels={"kind": "notebook"}),
        2 * DAY,
        ReminderRule(every=6 * HOUR, enforcement=_STOP, stop_after=2, grace=2 * HOUR),
        window=2 * HOUR,
    ),
    _preset("multi-gpu", Match(gpu_count_min=2), 12 * HOUR, ReminderRule(every=3 * HOUR)),
    _preset("a100", Match(gpu_types=frozenset({"nvidia-tesla-a100"})), DAY, ReminderRule(every=6 * HOUR)),
    _preset(
        "t4",
        Match(gpu_types=frozenset({"nvidia-tesla-t4"})),
        8 * HOUR,
        ReminderRule(every=4 * HOUR, enforcement=_STOP, stop_after=3, grace=HOUR),
    ),
    _preset(OTHER, Match(), 3 * DAY, ReminderRule(every=8 * HOUR, enforcement=_STOP, stop_after=2, grace=4 * HOUR)),
)
RULES = Rules(
    {preset.name: preset for preset in PRESETS},
    quiet=QuietRule(unless_above=Money.of(20)),
    time_zone="Europe/Madrid",
    channel=f"#{CHANNEL}",
    contact=CONTACT,
    access=Access(
        viewers=frozenset({"@example.com"}),
        operators=frozenset({"ben@example.com"}),
        admins=frozenset({"dana@example.com"}),
    ),
    protection=Protection(names=("*-prod",)),
    is_shadow=False,
)
_MACHINES: Mapping[str, dict[str, Any]] = {
    "notebook": {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    "multi-gpu": {"machine": "a2-highgpu-8g"},
    "a100": {"machine": "a2-highgpu-1g"},
    "t4": {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    OTHER: {"machine": "n2-standard-4"},
}


@dataclass(frozen=True, slots=True)
class Made:
    """A VM as it was meant. `owner` is "" where a program made it; `lasts` until it is deleted, whatever its state."""

    preset: str
    owner: str
    is_protected: bool
    is_spot: bool
    lasts: timedelta

    @property
    def is_dear(self) -> bool:
        return self.preset == "multi-gpu" and not self.is_spot


@dataclass
class Fleet:
    """Everything that happens to VMs without the guard, decided by one seed and planned on the world's timeline."""

    world: World
    chance: random.Random
    made: dict[int, Made] = field(default_factory=dict)  # by the VM's number
    happened: Counter[str] = field(default_factory=Counter)

    def plan(self, start: datetime, span: timedelta, size: int) -> None:
        for _ in range(size):
            self.world.at(start + self.chance.random() * span, self._create)

    def _create(self) -> None:
        chance = self.chance
        kind = chance.choices(list(_MACHINES), [2, 1, 3, 5, 3])[0]
        is_spot = kind != "notebook" and chance.random() < 0.25
        owner = chance.choice(OWNERS) if chance.random() < 0.88 else ""
        # Few names, so that they are used again for other VMs.
        name = f"{kind}-{chance.randrange(12)}{'-prod' if chance.random() < 0.08 else ''}"
        labels = {"owner": owner} if owner else {}
        if kind == "notebook":
            labels["kind"] = "notebook"
        is_protected = name.endswith("-prod")
        if chance.random() < 0.05:
            labels["costguard-protect"], is_protected = "true", True
        zone = chance.choice(ZONES)
        made = Made(kind, owner, is_protected, is_spot, self._lasts(kind))
        wanted = body(name, zone, **_MACHINES[kind], spot=is_spot, labels=labels)
        user = f"{owner}@example.com" if owner else _PROGRAM
        if not self._try("made", lambda: self.world.insert(PROJECT, zone, wanted, user)):
            return
        vm = self.world.instance(PROJECT, name, zone)
        self.made[vm.id] = made
        self._later(made.lasts, "deleted", vm, lambda: self._ask("delete", vm))
        self._live(vm, made)

    def _lasts(self, kind: str) -> timedelta:
        """Some are short, most are forgotten; what nobody stops and costs much is deleted after some days."""
        if self.chance.random() < 0.2:
            return self.chance.uniform(1, 7) * HOUR
        longest = 4 if kind == "multi-gpu" else 12
        return self.chance.uniform(1, longest) * DAY

    def _live(self, vm: VM, made: Made) -> None:
        chance = self.chance
        if made.preset == "notebook" and chance.random() < 0.4:
            self._later(chance.uniform(1, 8) * HOUR, "came to be idle", vm, lambda: self._rest(vm, Load.IDLE))
            if chance.random() < 0.3:
                self._later(chance.uniform(9, 40) * HOUR, "worked again", vm, lambda: self._rest(vm, Load.BUSY))
        if made.is_spot:
            for _ in range(2):
                struck = chance.uniform(1, 72) * HOUR
                self._later(struck, "preempted", vm, lambda: self.world.trigger("preempt", PROJECT, vm.name))
                if chance.random() < 0.7:
                    self._later(struck + chance.uniform(0.1, 5) * HOUR, "restarted", vm, lambda: self._ask("start", vm))
        if chance.random() < 0.15:
            at = chance.uniform(0, 2) * DAY
            self._later(at, "stopped by its owner", vm, lambda: self._ask("stop", vm))
        if chance.random() < 0.5:
            self._later(chance.uniform(2, 8) * DAY, "restarted", vm, lambda: self._ask("start", vm))

    def _later(self, after: timedelta, what: str, vm: VM, act: Callable[[], object]) -> None:
        """Unless it is gone by then, and another one has its name."""

        def happen() -> None:
            if vm.status is not Status.DELETED:
                self._try(what, act)

        self.world.at(self.world.timeline.now + after, happen)

    def _ask(self, verb: str, vm: VM) -> None:
        if verb == "start" and vm.status is Status.SUSPENDED:
            verb = "resume"
        if verb == "start" and vm.status is not Status.TERMINATED:
            return
        owner = self.made[vm.id].owner
        self.world.request(verb, PROJECT, vm.zone, vm.name, f"{owner}@example.com" if owner else _PROGRAM)

    def _rest(self, vm: VM, load: Load) -> None:
        vm.loads.append((self.world.timeline.now, load))

    def _try(self, what: str, act: Callable[[], object]) -> bool:
        """Google refuses some of it, as it would."""
        try:
            act()
        except Refused:
            return False
        self.happened[what] += 1
        return True
