"""Asks the command to save, whenever the interval between checkpoints has passed since its last complete one.

The command is asked without being ended: by a file that it watches, or by a signal that it catches. A signal goes only
to processes that have a handler for it: it would end any other.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .checkpoints import DiskCheckpoints
from .containers import container_process
from .files import PACE, own_time, read, say, write
from .settings import AttemptSettings
from .state import SavedState
from .watch.process_watch import processes

FILE = "file"
FIRST_S = 900.0  # until the guard says more: it does once a save was measured
SAY_S = 600.0  # between questions to the guard: the hazard changes with the VM's age
TICK_S = 5.0
ANSWERS_S = 300.0  # a command has mostly saved by then


def request_file(step_file: str) -> str:
    """The file that asks: next to the step file, whose folder a container has too."""
    return os.path.join(os.path.dirname(step_file), "save-request")


def catching(root: int, number: int) -> list[int]:
    """The processes below `root`, and itself, that have a handler for a signal; of nested ones the outermost."""
    children: dict[int, list[int]] = {}
    for one in processes():
        children.setdefault(one.parent, []).append(one.pid)
    outermost: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if _catches(pid, number):
            outermost.append(pid)
        else:
            waiting += children.get(pid, [])
    return sorted(outermost)


def _catches(pid: int, number: int) -> bool:
    """Reads SigCgt of /proc/PID/status (man 5 proc): a mask in hexadecimal, whose lowest bit is signal 1."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


class SaveRequests:
    """`running` gives the command's process, 0 before and after it runs; `container` the name of its container, or "".

    Nothing is asked while the command is being stopped or drilled. Times are the VM's own, intervals the fleet's
    seconds, which are the same but in a simulated cloud.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        state: SavedState,
        place: DiskCheckpoints,
        file: str,
        running: Callable[[], int],
        container: Callable[[], str],
        send: Callable[..., None],
    ) -> None:
        self._settings, self._state, self._place, self._file = settings, state, place, file
        self._running, self._container, self._send = running, container, send
        self._every_s = settings.save_every_s or FIRST_S
        self._run = 0  # the command's process
        self._asked = self._saved = self._said = self._looked = 0.0
        self._save_s: float | None = None
        self._is_mute = False

    def order(self, every_s: float) -> None:
        """The guard's answer to the question how often to save."""
        if not self._settings.save_every_s and every_s > 0:
            self._every_s = every_s

    def ask_now(self) -> None:
        """The guard wants a save at once: another VM of the job is about to go."""
        try:
            pid = self._running()
            if self._settings.save_on and pid and not self._state.stop:
                self._ask(pid, time.time())
        except Exception as problem:  # the command may just have ended
            say(f"the command was not asked to save: {problem!r}")

    def watch(self, over: threading.Event) -> None:
        """Looks every few seconds, until the attempt is over; at once over where the job asks for no saves."""
        while self._settings.save_on and not over.wait(min(TICK_S, self._settings.look_s)):
            try:
                pid = self._running()
                if pid and not self._state.stop and self._state.drill.get("phase") not in ("stopping", "resuming"):
                    self._look(pid)
            except Exception as problem:  # a request that fails must not end the training, nor be the last
                say(f"the command was not asked to save: {problem!r}")

    def _look(self, pid: int) -> None:
        now, began = time.time(), own_time(self._state.of_runner("command.json")["started_at"])
        if pid != self._run:
            self._run, self._asked, self._said = pid, 0.0, 0.0
        if not self._settings.save_every_s and now - self._said >= SAY_S / PACE:
            self._ask_guard(now)
        # Soon after a request, so that a save is timed; later seldom, for a command that does not answer.
        pause_s = TICK_S if now - self._asked < ANSWERS_S else self._settings.look_s
        awaits = self._asked > self._saved and now - self._looked >= min(self._settings.look_s, pause_s)
        if awaits or self._is_due(now, began):
            self._see(now)
            if self._is_due(now, began):
                self._ask(pid, now)

    def _is_due(self, now: float, began: float) -> bool:
        return now - max(began, self._saved, self._asked) >= self._every_s / PACE

    def _see(self, now: float) -> None:
        """Looks for a newer complete checkpoint. The first after a request shows how long a save takes."""
        self._looked = now
        written_at = self._place.look()["written_at"]
        written = own_time(written_at) if written_at else 0.0
        if written <= self._saved:
            return
        was_asked, self._saved = self._asked > self._saved, written
        if was_asked and written > self._asked:
            self._save_s = (written - self._asked) * PACE
            if not self._settings.save_every_s:
                self._ask_guard(now)

    def _ask_guard(self, now: float) -> None:
        self._said = now
        fields: Mapping[str, Any] = {} if self._save_s is None else {"save_s": round(self._save_s, 1)}
        self._send("save", every_s=self._every_s, **fields)

    def _ask(self, pid: int, now: float) -> None:
        self._asked = now
        if self._settings.save_on == FILE:
            write(self._file, str(int(now * 1000)).encode())
            os.chmod(self._file, 0o644)
            return
        number = signal.Signals[self._settings.save_on]
        name = self._container()
        root = container_process(name) if name else pid
        handlers = catching(root, number) if root else []
        for one in handlers:
            os.kill(one, number)
        if not handlers and not self._is_mute:
            say(f"the command is not asked to save: none of its processes has a handler for {number.name}")
        self._is_mute = not handlers
