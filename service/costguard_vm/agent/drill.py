"""A preemption drill: a notice on purpose, right after a checkpoint, and what the command makes of it.

The command gets SIGTERM as at a preemption. Its saves are watched, for longer than a preemption would leave it, so
that a late one differs from none at all. Then it runs again on this VM, within the same run to
the guard, and is watched until it goes on from where it was. A thread of its own does this; the state is on disk, so
that a later agent goes on with it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Callable, Mapping, NamedTuple

from costguard_vm.checkpoints.judge import candidates, verdict_on
from costguard_vm.checkpoints.layouts.base import RangeReader
from costguard_vm.model.checkpoint import CheckpointState, Listing

from .checkpoints import DiskCheckpoints
from .drill_rules import INTERRUPTED, SAVED, TOO_LATE, DrillLimits, Save, Steps, goes_on, judged
from .files import boot_id, own_time, say
from .settings import AttemptSettings, Unwanted
from .state import SavedState
from .stopping import POWER_OFF_S, preemption_grace_s
from .transfers.preparation import CommandSecrets
from .transfers.remote import RemoteReader, fingerprint
from .transfers.transfer import Wait, place
from .transfers.travel import TravellingCheckpoints

LOOK_S = 5.0
TRIES = 6  # to read a bucket
REPORTED = (
    *("number", "phase", "result", "resumed", "began_at", "ended_at", "saved_s", "uploaded_s", "resumed_s"),
    *("name", "saved_step", "step_before", "was_killed", "why"),
)


class BucketCheckpoints(DiskCheckpoints):
    """The checkpoints that a command itself writes to a bucket."""

    def __init__(self, settings: AttemptSettings, runs: str, secrets: CommandSecrets, over: threading.Event) -> None:
        super().__init__(settings._replace(checkpoint=settings.stored_checkpoint), "", runs)
        self._secrets, self._over = secrets, over

    def look(self) -> dict[str, Any]:
        for _ in range(TRIES):
            seen = super().look()
            if not seen["error"] or self._over.wait(LOOK_S):
                break
        return seen

    def open(self) -> tuple[Listing, RangeReader]:
        transfer = self._secrets.transfer(self._over.wait)
        files, folder = transfer.listing(self._location), self._location
        is_file = list(files) == [os.path.basename(self._location)]
        if is_file:
            folder = os.path.dirname(self._location)
        # As the guard names it, whose resume arguments the command knows: a folder by its path.
        named = place(self._location) if self._location.startswith("file:") else self._location
        return Listing(named, files, is_file=is_file), RemoteReader(transfer, folder)


class Seen(NamedTuple):
    """A checkpoint at one look."""

    step: int | None
    mark: str  # differs whenever its files do
    written_at: float
    is_complete: bool
    why: str


class DrillWork(NamedTuple):
    """The effects of a drill on its attempt.

    `stop` gives the command its notice, unless it ends anyway; `kill` ends it.
    """

    stop: Callable[[], bool]
    kill: Callable[[], None]
    send: Callable[..., None]
    note_end: Callable[[Mapping[str, Any]], None]


class HeldDrill:
    """The drill that is held, or none. `folder` is the attempt's."""

    def __init__(
        self,
        settings: AttemptSettings,
        state: SavedState,
        folder: str,
        volumes: str,
        secrets: CommandSecrets,
        travel: TravellingCheckpoints,
        work: DrillWork,
    ) -> None:
        self._settings, self._state, self._travel, self._work = settings, state, travel, work
        self._over, self._ended, self._judged = threading.Event(), threading.Event(), threading.Event()
        runs, plan = os.path.join(folder, "runs"), settings.checkpoint
        if plan.get("local"):
            plan = {**{name: text for name, text in plan.items() if name != "local"}, "location": plan["local"]}
            self.place = DiskCheckpoints(settings._replace(checkpoint=plan), volumes, runs)
        elif settings.stored_checkpoint:
            self.place = BucketCheckpoints(settings, runs, secrets, self._over)
        else:
            self.place = DiskCheckpoints(settings, volumes, runs)
        self._readings: list[tuple[float, int]] = []  # of the command's step
        self._complete: dict[str, str] = {}  # marks of checkpoints that were read, by name
        self._reported: set[int] = set()  # by this process
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def order(self, number: int) -> None:
        """The guard asks for it, again and again until it knows how it ended. None in a job of several VMs: the
        commands of the others would fail.
        """
        with self._lock:
            last, phase = self._state.drill.get("number", 0), self._state.drill.get("phase")
            if (
                number < last
                or not self.place.is_on_disk
                or self._settings.gang
                or (number == last and number in self._reported)
            ):
                return
            if number > last:
                self._note({"number": number, "phase": "waiting"}, is_new=True)
            if number > last or phase == "over":
                self._report()
            self._reported.add(number)
        self.go_on()

    def go_on(self) -> None:
        """Goes on with the drill, also after a restart of the agent."""
        if self._state.drill.get("boot", boot_id()) != boot_id():
            self.interrupt()
        if self.phase and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._hold, daemon=True)
            self._thread.start()

    @property
    def phase(self) -> str:
        """waiting, stopping or resuming; "" where none is held."""
        phase: str = self._state.drill.get("phase", "")
        return "" if phase == "over" else phase

    def see(self, step: int | None) -> None:
        """The command's step in a heartbeat."""
        if step is not None and (not self._readings or self._readings[-1][1] != step):
            self._readings = [*self._readings[-99:], (time.time(), step)]

    def ends(self, ended: Mapping[str, Any], wait: Wait) -> bool:
        """The command has ended. Whether it runs again, because of the drill: then that is noted as the next run."""
        phase = self.phase
        if phase == "stopping" and self._ended_before(ended):  # by itself, just before the notice
            self._note({"phase": "waiting"})
            return False
        if phase == "stopping":
            self._conclude(wait)
        if self._state.stop:
            self.interrupt()
        elif phase == "stopping":
            self._state.run_again({**self._state.drill, "phase": "resuming", "ended_at": ended.get("ended_at")})
            self._report()
            return True
        elif phase == "resuming":
            is_failure = ended.get("reason") != "exited" or ended.get("code") != 0
            drill = {**self._state.drill, "phase": "over", "resumed": "no" if is_failure else "yes"}
            if is_failure:
                self._work.note_end(ended)
                self._state.run_again(drill)
            else:
                self._note(drill)
            self._report()
            return is_failure
        return False

    @property
    def _patience_s(self) -> float:
        return self._settings.drill_patience_s + self._settings.notice_s

    def _ended_before(self, ended: Mapping[str, Any]) -> bool:
        """Says whether the command ended before the drill was noted.

        After that the notice may have ended it, also where the agent was killed then.
        """
        ended_at = ended.get("ended_at")  # in whole milliseconds, rounded down
        return bool(ended_at) and own_time(str(ended_at)) < self._state.drill["began"] - 0.001

    def _conclude(self, wait: Wait) -> None:
        until = self._state.drill["began"] + self._patience_s

        def wait_at_most(seconds: float) -> None:
            if self._state.stop or time.time() > until:
                raise Unwanted("the drill waits no longer")
            wait(seconds)

        with contextlib.suppress(Unwanted):
            self._travel.settle(wait_at_most)
        self._ended.set()
        while not self._judged.is_set() and not self._state.stop:
            wait(self._settings.poll_s)

    def interrupt(self) -> None:
        """Interrupts the drill by a stop, or by the end of the VM.

        A drill that still waits is held on the next VM, or after its restart.
        """
        with self._lock:
            if self.phase not in ("stopping", "resuming"):
                return
            result = INTERRUPTED if self.phase == "stopping" else self._state.drill["result"]
            self._note({"phase": "over", "result": result})
        self._report()

    def close(self) -> None:
        self._over.set()

    def _hold(self) -> None:
        acts = {"waiting": self._await_moment, "stopping": self._watch_saves, "resuming": self._watch_start}
        while self.phase and not self._over.is_set() and not self._judged.is_set():
            try:
                acts[self.phase]()
            except Exception as problem:  # what goes wrong here must not end the training
                say(f"the drill goes on after: {problem!r}")
                self._over.wait(LOOK_S)

    def _await_moment(self) -> None:
        """Returns once the notice is given: soon after a complete checkpoint or the first step, and after some work."""
        settings = self._settings
        while not self._over.is_set() and self.phase == "waiting":
            started = self._state.of_runner("command.json").get("started_at")
            facts = self._moment(started, self._look()) if started else {}
            if facts:
                self._note(facts)
                if self._work.stop():
                    self._report()
                    return
            self._over.wait(min(LOOK_S, settings.look_s))

    def _moment(self, started: str, seen: Mapping[str, Seen]) -> dict[str, Any]:
        """Returns the state as the notice is given; empty where this is not the moment for it."""
        settings, readings = self._settings, self._readings
        whole = [one for one in seen.values() if one.is_complete]
        newest = max(whole, key=lambda one: (-1 if one.step is None else one.step, one.written_at), default=None)
        since = readings[0][0] if readings else own_time(started)
        since = since if newest is None else max(since, newest.written_at)
        later = [step for at, step in readings if at >= since]
        worked = time.time() - since
        if worked > settings.drill_stake_s or (len(later) < 2 and worked < settings.drill_settle_s):
            return {}
        took, steps = (readings[-1][place] - readings[0][place] for place in (0, 1)) if readings else (0, 0)
        return {
            "before": {name: one.mark for name, one in seen.items()},
            "has_checkpoint": bool(whole),
            "step_before": newest.step if newest is not None else None,
            "first": later[0] if later else None,
            "last": readings[-1][1] if readings else None,
            "speed": steps / took if took > 0 and steps > 0 else None,
            "boot": boot_id(),
        }

    def _watch_saves(self) -> None:
        """Until the command has ended, and what it saved is uploaded."""
        was_killed = "is_signalled" not in self._state.drill  # the agent, just then
        if was_killed and not self._state.of_runner("exit.json") and not self._work.stop():
            self._over.wait(self._settings.poll_s)
            return
        drill, settings = self._state.drill, self._settings
        began, earlier = drill["began"], drill["began"]
        saves: dict[str, Save] = {}
        while not self._over.is_set():
            is_final, looked_at = self._ended.is_set(), time.time()
            for name, one in self._look().items():
                if drill["before"].get(name) != one.mark:
                    saves[name] = self._save(name, one, saves.get(name), began, earlier, looked_at)
            if is_final:
                self._judge(list(saves.values()))
                return
            earlier = looked_at
            if time.time() > began + self._patience_s and not self._state.of_runner("exit.json"):
                self._note({"was_killed": True})
                self._work.kill()
            self._ended.wait(settings.poll_s)

    def _save(self, name: str, one: Seen, before: Save | None, began: float, earlier: float, looked_at: float) -> Save:
        """It became complete between the look before and this one, by its files' time of change where that fits."""
        complete_s = min(max(one.written_at, earlier), looked_at) - began if one.is_complete else None
        if complete_s is not None and before is not None and before.complete_s is not None:
            complete_s = before.complete_s
        uploaded_at = self._travel.uploaded_at.get(name)
        uploaded_s = uploaded_at - began if uploaded_at is not None and uploaded_at >= began else None
        return Save(name, one.step, complete_s, uploaded_s, one.why)

    def _judge(self, saves: list[Save]) -> None:
        drill, settings = self._state.drill, self._settings
        grace = preemption_grace_s(settings)
        limits = DrillLimits(grace, grace + POWER_OFF_S, self._travel.is_wanted)
        result, save = judged(saves, limits, Steps(drill["step_before"], drill["first"], drill["last"]))
        is_fresh = result in (SAVED, TOO_LATE)
        kept = save.step if save is not None and is_fresh else drill["step_before"]
        own = drill["last"] if is_fresh else drill["first"]
        steps = [step for step in (kept, own) if step is not None]
        facts = save or Save("", None)
        with self._lock:
            if self.phase != "stopping" or self._state.stop:
                return
            self._note(
                {
                    "result": result,
                    "saved_s": _rounded(facts.complete_s),
                    "uploaded_s": _rounded(facts.uploaded_s),
                    "why": facts.why,
                    "name": facts.name,
                    "saved_step": facts.step,
                    "has_checkpoint": drill["has_checkpoint"] or is_fresh,
                    "wanted": min(steps) if steps and own is not None else None,
                }
            )
        self._judged.set()

    def _watch_start(self) -> None:
        """Until the command goes on, or has had time enough to. Its end is `ends`'s."""
        drill, settings = self._state.drill, self._settings
        while not self._over.wait(settings.poll_s) and self.phase == "resuming":
            started = self._state.of_runner("command.json").get("started_at")
            if not started:
                continue
            took = time.time() - own_time(started)
            is_on = goes_on(self._readings, drill["wanted"], drill.get("speed"))
            if is_on is None and took <= settings.quick_crash_s and drill["has_checkpoint"]:
                continue
            resumed = {True: "yes", False: "no", None: "unknown"}[is_on] if drill["has_checkpoint"] else ""
            with self._lock:
                if self.phase == "resuming":
                    took_s = _rounded(took) if is_on else None
                    self._note({"phase": "over", "resumed": resumed, "resumed_s": took_s})
                    self._report()

    def _look(self) -> dict[str, Seen]:
        """All checkpoints there are; those that were complete before are not read again."""
        try:
            listing, reader = self.place.open()
        except FileNotFoundError:
            return {}
        seen: dict[str, Seen] = {}
        for one in candidates(listing, self.place.look_for, reader):
            mark = fingerprint(one, listing)
            is_complete, why = self._complete.get(one.name) == mark, ""
            if not is_complete:
                state, reasons = verdict_on(one, reader, None, is_wanted=True)
                is_complete, why = state is CheckpointState.COMPLETE, " ".join(reasons)[:300]
            if is_complete:
                self._complete[one.name] = mark
            written = [file.modified_at.timestamp() for file in one.files.values()]
            seen[one.name] = Seen(one.step, mark, max(written, default=0.0), is_complete, why)
        return seen

    def _note(self, facts: Mapping[str, Any], is_new: bool = False) -> None:
        self._state.drill = {**({} if is_new else self._state.drill), **facts}
        self._state.save()

    def _report(self) -> None:
        drill = self._state.drill
        fields = {name: drill[name] for name in REPORTED if drill.get(name) is not None}
        self._work.send("drill", **fields, grace_s=preemption_grace_s(self._settings))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds), 1)
