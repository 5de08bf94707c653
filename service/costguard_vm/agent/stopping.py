"""The end of the command before it ends by itself: who requests it, how long it has, SIGTERM and SIGKILL."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from .containers import kill_container
from .events import EventSender
from .files import utc
from .runner import container, signal_group
from .settings import FLAT, AttemptSettings, NotStarted, Unwanted
from .state import VM_ENDS, SavedState
from .watch.ranks import descendants, kill_tree

POWER_OFF_S = 8  # from the end of the notice's grace until Google cuts the power
NEVER = float("inf")


def preemption_grace_s(settings: AttemptSettings) -> float:
    """Returns the seconds from the notice of a preemption until the command is killed."""
    return settings.notice_s + settings.notice_grace_s


class VmEnds(Exception):
    """The VM ends before the command was started: after a reboot, as of a driver's installer, it is started."""


class CommandStop:
    """Requests to stop, from the guard, from Google's notices and from the VM. Safe for several threads.

    `when_noticed` is called at Google's notice of a preemption, `when_vm_ends` when the end of the VM is known, and
    `in_last_seconds` while what the command left is brought away and nothing but the VM's last seconds are left.
    """

    def __init__(self, settings: AttemptSettings, state: SavedState, guard: EventSender) -> None:
        self._settings, self._state, self._guard = settings, state, guard
        self.when_noticed: list[Callable[[], object]] = []
        self.when_vm_ends: list[Callable[[], object]] = []
        self.in_last_seconds: list[Callable[[], object]] = []
        self._stopping, self._wake = threading.Lock(), threading.Event()
        self._deadline = NEVER
        self.noticed_until = 0.0  # of the monotonic clock: the VM runs on until then, since its notice said so
        self.is_vm_ending = False  # set by a signal handler, which may take no lock
        self.was_killed = False

    def request(self, why: str, grace_s: float) -> None:
        """A second reason can only shorten the time that is left."""
        with self._stopping:
            stop = self._state.stop
            if why in stop.get("reasons", ()):
                return
            first = stop or {"why": why, "grace_s": grace_s, "reasons": []}
            self._state.stop = {**first, "reasons": [*first["reasons"], why]}
            self._state.save()
            self._deadline = min(self._deadline, time.monotonic() + grace_s)
        if why in VM_ENDS:
            for act in self.when_vm_ends:
                act()
        self._wake.set()

    def request_if_vm_ends(self) -> None:
        if self.is_vm_ending:
            self.request("shutdown", self._settings.notice_grace_s)

    def preempted(self, value: str) -> None:
        """Google's value of instance/preempted changed."""
        if value == "TRUE":
            self._guard.send("notice", run=self._state.known_run, what="preemption", value=value)
            for act in self.when_noticed:
                act()
            self.noticed_until = time.monotonic() + self._settings.notice_s
            self.request("preemption", preemption_grace_s(self._settings))

    @property
    def ends_in_seconds(self) -> bool:
        """Says whether nothing but the last seconds of the VM are left."""
        is_announced = not self.is_vm_ending and time.monotonic() < self.noticed_until
        return self._state.stop.get("why") in VM_ENDS and not is_announced

    def maintained(self, value: str) -> None:
        """Google's value of instance/maintenance-event changed."""
        if value != "NONE":
            self._guard.send("notice", run=self._state.known_run, what="maintenance", value=value)
        if value.startswith("TERMINATE") and self._settings.maintenance == "stop":
            self.request("maintenance", self._settings.notice_grace_s)

    def apply(self, pid: int) -> None:
        """Sends SIGTERM if a stop was requested, and SIGKILL once its time is over."""
        with self._stopping:
            stop = self._state.stop
            if stop and stop.get("signalled") != pid:  # a setup may end well all the same, and the command begin
                if self._state.drill.get("phase") != "stopping":  # a second notice makes some commands give up
                    signal_group(pid, signal.SIGTERM)
                self._state.stop = {**stop, "signalled": pid}
                self._state.save()
                if not stop.get("signalled"):
                    self._guard.send("stopping", run=self._state.known_run, why=stop["why"], grace_s=stop["grace_s"])
            elif stop and self._deadline == NEVER:  # it was requested of an earlier agent
                self._deadline = time.monotonic() + stop["grace_s"]
        if time.monotonic() >= self._deadline and not self.was_killed:
            self.kill(pid)

    def begin_drill(self) -> bool:
        """Gives the command the notice of a preemption, unless it stops or has ended anyway.

        What it does then is never its end, so this is noted before the notice.
        """
        with self._stopping:
            command = self._state.of_runner("command.json")
            if self._state.stop or not command or self._state.of_runner("exit.json"):
                return False
            self._state.drill = {**self._state.drill, "phase": "stopping", "began": time.time(), "began_at": utc()}
            self._state.save()
            for act in self.when_vm_ends:
                act()
            signal_group(command["pid"], signal.SIGTERM)
            self._state.drill = {**self._state.drill, "is_signalled": True}
            self._state.save()
        return True

    def kill(self, pid: int) -> None:
        self.was_killed = True
        if self._settings.image:
            kill_container(container(self._settings, self._state.run))
        ranks = descendants(pid)
        signal_group(pid, signal.SIGKILL)
        kill_tree(ranks)

    def carry_on(self, seconds: float) -> None:
        """Waits while what the command left is brought away. Raises where nothing more is wanted of this VM."""
        latest = time.monotonic() + seconds
        while True:
            self.request_if_vm_ends()
            if self.ends_in_seconds:
                for act in self.in_last_seconds:
                    act()
            stop = self._state.stop
            if stop and self._deadline == NEVER:
                self._deadline = time.monotonic() + stop["grace_s"]
            if stop and time.monotonic() >= self._deadline + self._patience_s():
                raise Unwanted(f"{self._state.stop['why']} came before all was brought away")
            if time.monotonic() >= latest:
                return
            self.wait(min(seconds, self._settings.poll_s))

    def _patience_s(self) -> float:
        """Returns the seconds from the command's deadline on in which what it left may still be brought away.

        One that was ended because its metric stands still has made its result, unless the VM ends as well.
        """
        if set(self._state.stop["reasons"]) == {FLAT}:
            return self._settings.publish_wait_s
        return POWER_OFF_S if self._state.stop["why"] in VM_ENDS else 0

    def hold(self, seconds: float) -> None:
        """Waits for something that the command needs. Raises where the command is not wanted any more."""
        latest = time.monotonic() + seconds
        while True:
            if self._state.stop:
                raise NotStarted(f"{self._state.stop['why']} came before the command was started")
            if self.is_vm_ending:
                raise VmEnds
            if time.monotonic() >= latest:
                return
            self.wait(min(seconds, self._settings.poll_s))

    def wait(self, seconds: float) -> None:
        """Until then, or until a stop is requested."""
        self._wake.wait(seconds)
        self._wake.clear()
