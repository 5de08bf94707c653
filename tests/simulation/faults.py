"""The registry of the simulation's faults: how each begins and ends.

A kind that needs more than a `Situation` offers goes here too: widen the situation.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.database_trouble import DatabaseTrouble, DatabaseTroubleKind
from tests.simulation.settings import CHANNEL, JOB_ZONES, PROJECT, ZONES

from costguard_sandbox.gce.catalogue.prices import Misprint
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.system_events import Reclaim
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.world import World

if TYPE_CHECKING:
    from tests.simulation.backups import Older
    from tests.simulation.gaps import Gaps
    from tests.simulation.guarding import GuardClock
    from tests.simulation.operators import Operators
    from tests.simulation.plan import PlannedFault

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
GUARD_OFF, ARCHIVED, RESTORED, LEFT = "guard off", "channel archived", "database restored", "person left"
ASLEEP, JUMPED = "guard's machine asleep", "clock jumps"
MISPRINTED, FREE = "prices misprinted", "prices of nothing"
LEAVER = "emi"  # who leaves Slack's workspace for some days


class Stage(Protocol):
    """The parts that faults act on: the world, the guard's database and its clock."""

    world: World
    trouble: DatabaseTrouble
    operators: Operators
    guard_clock: GuardClock
    gaps: Gaps
    older: Older

    def show_new_statuses(self, is_on: bool) -> None:
        """Makes VMs that run in the second project have a status that no client knows yet, or not."""
        ...

    def back_up(self) -> Callable[[], object]:
        """Copies the guard's database; what is returned puts the copy back."""
        ...


@dataclass(frozen=True, slots=True)
class Situation:
    """The parts that a fault may act on. `lot` is the fault's own."""

    stage: Stage
    lot: random.Random

    @property
    def world(self) -> World:
        return self.stage.world


Ends = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: so many times in a quarter, from `least` to `most` long. `begin` returns what ends it.

    `hinders`: while it lasts the guard may not see, act or notify, so that nothing counts as late.
    """

    name: str
    times: float
    least: timedelta
    most: timedelta
    begin: Callable[[Situation], Ends]
    hinders: bool = True
    is_named: bool = False  # it comes only where an aim names it


def _slack(kind: str, **values: Any) -> Callable[[Situation], Ends]:
    def begin(situation: Situation) -> Ends:
        faults = situation.world.slack.faults
        return partial(faults.remove, faults.add(kind, **values).id)

    return begin


def _google(kind: str, **values: Any) -> Callable[[Situation], Ends]:
    def begin(situation: Situation) -> Ends:
        faults = situation.world.faults
        places = {"unreachable_zone": ZONES, "stockout": JOB_ZONES}
        more = {"zone": situation.lot.choice(places[kind])} if kind in places else {}
        return partial(faults.remove, faults.add(kind, **values, **more).id)

    return begin


def _archived(situation: Situation) -> Ends:
    situation.world.slack.archive(CHANNEL)
    return partial(situation.world.slack.archive, CHANNEL, False)


def _revoked(situation: Situation) -> Ends:
    situation.world.slack.tokens.invalidate("token_revoked")
    return situation.world.slack.tokens.restore


def _nothing(_situation: Situation) -> Ends:
    return lambda: None


def _leaves(situation: Situation) -> Ends:
    """A person leaves the workspace, and comes back."""
    slack = situation.world.slack
    user = slack.user(LEAVER)
    user.deleted = True
    slack.changed()

    def back() -> None:
        user.deleted = False
        slack.changed()

    return back


def _database(kind: DatabaseTroubleKind, chance: float) -> Callable[[Situation], Ends]:
    return lambda situation: situation.stage.trouble.begin(kind, chance)


def _clock(situation: Situation) -> Ends:
    """The clock of the guard's machine is wrong by seconds or minutes, either way, and set right later."""
    seconds = situation.lot.choice((-1, 1)) * situation.lot.choice((2, 40, 240))
    situation.stage.guard_clock.set_wrong(timedelta(seconds=seconds))
    return partial(situation.stage.guard_clock.set_wrong, timedelta())


def _asleep(situation: Situation) -> Ends:
    situation.stage.gaps.sleep(situation.lot.uniform(0.2, 9) * _HOUR)
    return lambda: None


def _clock_set(situation: Situation) -> Ends:
    """An hour ahead or back, and set right later."""
    situation.stage.gaps.set_clock(situation.lot.choice((-1, 1)) * _HOUR)
    return partial(situation.stage.gaps.set_clock, timedelta())


def _new_statuses(situation: Situation) -> Ends:
    situation.stage.show_new_statuses(True)
    return partial(situation.stage.show_new_statuses, False)


def _unwatched(situation: Situation) -> Ends:
    situation.stage.operators.watch(False)
    return partial(situation.stage.operators.watch, True)


def _other_settings(situation: Situation) -> Ends:
    return situation.stage.operators.change(situation.lot)


def _restored(situation: Situation) -> Ends:
    return situation.stage.back_up()


def _restored_again(situation: Situation) -> Ends:
    """The backup that was put back last is put back once more."""
    return lambda: situation.stage.older.again()


def _misprinted(situation: Situation) -> Ends:
    faults = situation.world.faults
    return partial(faults.remove, faults.add("misprinted_prices", misprint=situation.lot.choice(list(Misprint))).id)


def _free(situation: Situation) -> Ends:
    faults = situation.world.faults
    return partial(faults.remove, faults.add("misprinted_prices", misprint=Misprint.ZERO).id)


def _strikes(*events: str) -> Callable[[Situation], Ends]:
    """Strikes at once one VM that is up or comes up."""

    def begin(situation: Situation) -> Ends:
        up = (Status.RUNNING, Status.STAGING, Status.PROVISIONING)
        vms = [vm for vm in situation.world.instances(PROJECT) if vm.status in up]
        if vms:
            vm, event = situation.lot.choice(vms), situation.lot.choice(events)
            with suppress(Refused):  # it cannot happen to this VM
                situation.world.trigger(event, PROJECT, vm.name, vm.zone)
        return lambda: None

    return begin


def _reclaimed(situation: Situation) -> Ends:
    """Google wants capacity back: all Spot VMs of a region go at once."""
    region = situation.lot.choice(("us-central1", "us-east1"))
    situation.world.reclaim(Reclaim(project=PROJECT, region=region))
    return lambda: None


def _preempted_in_start(situation: Situation) -> Ends:
    """The next start of a Spot VM, or what is left of its first, is undone before it ends."""
    spot = [vm for vm in situation.world.instances(PROJECT) if vm.is_spot]
    if spot:
        vm = situation.lot.choice(spot)
        situation.world.trigger_after_notice("preempt-in-start", PROJECT, vm.name, vm.zone)
    return lambda: None


KINDS: tuple[Kind, ...] = (
    Kind("slack down", 10, _HOUR / 3, 9 * _HOUR, _slack("down")),
    Kind("slack broken", 4, _HOUR / 3, 5 * _HOUR, _slack("broken", chance=0.6)),
    Kind("slack in error", 3, _HOUR / 3, 5 * _HOUR, _slack("error", code="internal_error", chance=0.7)),
    Kind("slack limits", 6, _HOUR, 8 * _HOUR, _slack("rate_limited", seconds=20.0, chance=0.4)),
    Kind("slack slow", 4, _HOUR, 4 * _HOUR, _slack("slow", seconds=6.0, chance=0.3)),
    Kind("slack silent", 4, _HOUR, 4 * _HOUR, _slack("timeout", seconds=30.0, chance=0.3)),
    Kind("answers lost", 12, _HOUR, 10 * _HOUR, _slack("lost_answer", method="chat.*", chance=0.5)),
    Kind("answers lost in a 500", 8, _HOUR, 10 * _HOUR, _slack("lost_answer_error", method="chat.*", chance=0.5)),
    Kind(
        "answers lost in silence", 4, _HOUR, 6 * _HOUR,
        _slack("lost_answer_timeout", method="chat.*", seconds=30.0, chance=0.3),
    ),
    Kind(ARCHIVED, 1, 2 * _DAY, 7 * _DAY, _archived),
    Kind("token revoked", 1, _DAY / 4, _DAY, _revoked),
    Kind("zone unreachable", 12, _HOUR, 10 * _HOUR, _google("unreachable_zone")),
    Kind("google in error", 6, _HOUR / 2, 4 * _HOUR, _google("server_error", code=503)),
    Kind("no stop is taken", 6, _HOUR, 8 * _HOUR, _google("server_error", code=502, path="/stop$")),
    Kind("stops answered with garbage", 4, _HOUR, 8 * _HOUR, _google("garbage", path="/stop$")),
    Kind("stops answered with silence", 4, _HOUR, 8 * _HOUR, _google("lost_answer", how="silence", path="/stop$")),
    Kind("answers to changes lost", 6, _HOUR, 8 * _HOUR, _google("lost_answer", how="reset", method="POST")),
    Kind(
        "stops answered though done", 3, _HOUR, 6 * _HOUR,
        _google("garbage", path="/stop$", what="html", when="after"),
    ),
    Kind("answers of nothing", 3, _HOUR, 5 * _HOUR, _google("garbage", what="empty", chance=0.4)),
    Kind("answers of a proxy", 3, _HOUR, 5 * _HOUR, _google("garbage", what="html", chance=0.4)),
    Kind("answers about another", 4, _HOUR, 6 * _HOUR, _google("garbage", what="other", chance=0.4)),
    Kind("answers broken off", 3, _HOUR, 6 * _HOUR, _google("lost_answer", how="half", chance=0.3)),
    Kind("requests lost on the way", 3, _HOUR, 6 * _HOUR, _google("lost_answer", when="before", chance=0.3)),
    Kind(
        "changes answered with 503", 5, _HOUR, 8 * _HOUR,
        _google("lost_answer", how="error", method="POST", chance=0.5),
    ),
    Kind(
        "deletes answered with 503", 4, _HOUR, 8 * _HOUR,
        _google("lost_answer", how="error", method="DELETE", chance=0.6),
    ),
    Kind(
        "changes that arrive later", 5, _HOUR, 8 * _HOUR,
        _google("lost_answer", when="later", seconds=45.0, method="POST", chance=0.5),
    ),
    Kind("requests that arrive twice", 5, _HOUR, 8 * _HOUR, _google("repeated", method="POST", chance=0.5)),
    Kind("google slow", 3, _HOUR, 4 * _HOUR, _google("slow", seconds=8.0, chance=0.3)),
    Kind("google silent", 3, _HOUR, 4 * _HOUR, _google("lost_answer", how="silence", seconds=60.0, chance=0.2)),
    Kind("google in error now and then", 5, _HOUR, 8 * _HOUR, _google("server_error", code=500, chance=0.3)),
    Kind("reads limited", 3, _HOUR, 4 * _HOUR, _google("rate_limit", limit=2)),
    Kind("changes limited", 3, _HOUR, 4 * _HOUR, _google("rate_limit", limit=1, writes=True)),
    Kind("credentials refused", 2, _HOUR / 2, 3 * _HOUR, _google("unauthenticated", chance=0.7)),
    Kind("project not found", 2, _HOUR / 2, 3 * _HOUR, _google("project_gone", project=PROJECT)),
    Kind("out of stock", 10, _HOUR, 12 * _HOUR, _google("stockout"), hinders=False),
    Kind(
        "no quota", 3, _HOUR, 8 * _HOUR,
        _google("quota", metric="PREEMPTIBLE_NVIDIA_T4_GPUS", limit=0), hinders=False,
    ),
    Kind(MISPRINTED, 5, 4 * _DAY, 6 * _DAY, _misprinted, hinders=False),
    Kind("capacity reclaimed", 20, _MINUTE, _MINUTE, _reclaimed, hinders=False),
    Kind("preempted in a start", 6, _MINUTE, _MINUTE, _preempted_in_start, hinders=False),
    Kind("host failed", 6, _MINUTE, _MINUTE, _strikes("host-error", "host-maintenance"), hinders=False),
    Kind("guest shut down", 5, _MINUTE, _MINUTE, _strikes("guest-shutdown", "recreate"), hinders=False),
    Kind("one preempted", 8, _MINUTE, _MINUTE, _strikes("preempt"), hinders=False),
    Kind("slack answered by a proxy", 3, _HOUR, 5 * _HOUR, _slack("garbage", what="html", chance=0.5)),
    Kind("slack answers nothing", 3, _HOUR, 5 * _HOUR, _slack("lost_answer_garbage", what="empty", chance=0.5)),
    Kind(LEFT, 3, _DAY, 3 * _DAY, _leaves),
    Kind("database locked", 3, _HOUR, 5 * _HOUR, _database(DatabaseTroubleKind.LOCKED, 0.05)),
    Kind("database restarted", 4, _HOUR, 5 * _HOUR, _database(DatabaseTroubleKind.RESTARTED, 0.005)),
    Kind("database silent", 2, _HOUR, 3 * _HOUR, _database(DatabaseTroubleKind.SILENT, 0.005)),
    Kind("commits unanswered", 5, _HOUR, 8 * _HOUR, _database(DatabaseTroubleKind.COMMIT_LOST, 0.05)),
    Kind("clock wrong", 4, _HOUR, 10 * _HOUR, _clock),
    Kind(RESTORED, 1.5, 2 * _HOUR, 30 * _HOUR, _restored),
    Kind("permission lost", 3, _HOUR, 6 * _HOUR, _google("forbidden", project=PROJECT)),
    Kind(
        "no delete is taken", 4, _HOUR, 12 * _HOUR, _google("server_error", code=502, method="DELETE"), is_named=True
    ),
    Kind("restored once more", 1.5, _HOUR, 12 * _HOUR, _restored_again, is_named=True),
    Kind(
        "stops that arrive much later", 4, _HOUR, 8 * _HOUR,
        _google("lost_answer", when="later", seconds=2400.0, path="/stop$", chance=0.7), is_named=True,
    ),
    Kind(
        "inserts that arrive much later", 4, _HOUR, 8 * _HOUR,
        _google("lost_answer", when="later", seconds=900.0, method="POST", path="/instances$", chance=0.7),
        is_named=True,
    ),
    Kind(ASLEEP, 30, _MINUTE, _MINUTE, _asleep, is_named=True),
    Kind(JUMPED, 20, _HOUR / 4, 3 * _HOUR, _clock_set, is_named=True),
    Kind(GUARD_OFF, 8, 2 * _HOUR, 30 * _HOUR, _nothing),
    Kind("statuses without a name", 8, _HOUR, 9 * _HOUR, _new_statuses, hinders=False, is_named=True),
    Kind(FREE, 8, 12 * _HOUR, _DAY, _free, hinders=False, is_named=True),
    Kind("project unwatched", 8, _HOUR, 30 * _HOUR, _unwatched, hinders=False, is_named=True),
    Kind("settings changed", 30, _HOUR / 4, 3 * _HOUR, _other_settings, hinders=False, is_named=True),
)  # fmt: skip
ORDINARY = tuple(kind for kind in KINDS if not kind.is_named)
_BY_NAME = {kind.name: kind for kind in KINDS}
# While one of them lasts a look may be whole and yet nothing be known of a VM that it lacks.
GOOGLES = frozenset(kind.name for kind in KINDS if kind.begin.__qualname__.startswith(_google.__name__ + "."))


@dataclass
class FaultSchedule:
    """Planned faults, begun and ended as the clock is moved."""

    stage: Stage
    coming: list[PlannedFault]
    lot: Callable[[int], random.Random]  # of a fault, by its number
    injected: Counter[str] = field(default_factory=Counter)
    _active: dict[int, tuple[PlannedFault, Ends]] = field(default_factory=dict)

    @property
    def bad(self) -> frozenset[str]:
        """Returns what keeps the guard from seeing, acting or notifying at the moment."""
        return frozenset(fault.kind for fault, _ in self._active.values() if _BY_NAME[fault.kind].hinders)

    @property
    def present(self) -> frozenset[str]:
        """Everything that is wrong at the moment."""
        return frozenset(fault.kind for fault, _ in self._active.values())

    @property
    def begins_at(self) -> datetime | None:
        return self.coming[0].at if self.coming else None

    @property
    def ends_at(self) -> datetime | None:
        return min((fault.ends for fault, _ in self._active.values()), default=None)

    def turn(self, now: datetime) -> None:
        for number, (fault, end) in list(self._active.items()):
            if fault.ends <= now:
                del self._active[number]
                end()
        while self.coming and self.coming[0].at <= now:
            fault = self.coming.pop(0)
            if fault.ends > now and all(fault.kind != one.kind for one, _ in self._active.values()):
                end = _BY_NAME[fault.kind].begin(Situation(self.stage, self.lot(fault.number)))
                self._active[fault.number] = fault, end
                self.injected[fault.kind] += 1

    def clear(self) -> None:
        self.coming.clear()
        active, self._active = self._active, {}
        for _, end in active.values():
            end()


def named(names: Iterable[str]) -> tuple[Kind, ...]:
    return tuple(_BY_NAME[name] for name in names)
