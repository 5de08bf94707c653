"""Takes profiles of the command, where it may: a few seconds of its stacks now and then, at a bounded cost.

py-spy's own processor time is what a profile can cost a training at most, on a VM without a free processor; so the
next window waits until the last one's is `SHARE` of the time since.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.files import make_folder, say
from costguard_vm.agent.settings import AttemptSettings, NotStarted, place_of
from costguard_vm.agent.transfers.tool import ToolFinder
from costguard_vm.profile.frames import read_recorded
from costguard_vm.profile.window import StackProfile, as_bounded_json, group_of

from .py_spy import Recording, numbers_of

SPAN_S, PER_S = 10, 20
FIRST_S = 120.0  # after the command is first seen: what it loads and compiles is no part of its steps
AGAIN_S, OFTEN, LATER_S = 60.0, 5, 300.0  # five times every minute, then every five
SHARE = 0.0025  # of the time, in seconds of one processor
REFUSED_S = 3600.0  # after a window that failed


class ProfileWatch:
    """Looks only where the job's owner or team allows it, and at the first of several VMs alone.

    `report` is called with the kind of an event and its fields: `number`, which grows (seconds since 1970), and
    `window`.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        py_spy: ToolFinder,
        folder: str,
        report: Callable[..., None],
    ) -> None:
        self._settings, self._py_spy, self._folder, self._report = settings, py_spy, folder, report
        self._thread: threading.Thread | None = None
        place = place_of(settings.gang)
        self._is_wanted = settings.profile and (place is None or place.node == 0 or place.is_elastic)
        self._main, self._next, self._times = 0, 0.0, 0

    def after(self, main: int | None) -> None:
        """Begins a window where one is due. `main` is the process whose main thread trains."""
        now = time.monotonic()
        if not self._is_wanted or not main or (self._thread is not None and self._thread.is_alive()):
            return
        if main != self._main:
            self._main, self._next = main, max(self._next, now + FIRST_S * self._pace)
        if now >= self._next:
            self._thread = threading.Thread(target=self._take, args=(main,), daemon=True)
            self._thread.start()

    @property
    def _pace(self) -> float:
        return self._settings.activity_s / 60

    def _take(self, pid: int) -> None:
        began, number = time.monotonic(), int(time.time())
        try:
            path = self._py_spy.path(lambda seconds: threading.Event().wait(seconds))
            window = take_window(path, pid, self._folder, max(1, round(SPAN_S * self._pace)))
        except (OSError, subprocess.SubprocessError, TransferFailed, NotStarted) as problem:
            window = StackProfile(error=f"py-spy cannot be used: {problem}")
        self._times += 1
        if window.error:
            say(f"no profile: {window.error}")
        self._next = began + pause_after(window, self._times, self._pace)
        self._report("profile", number=number, window=as_bounded_json(window))


def pause_after(window: StackProfile, times: int, pace: float = 1.0) -> float:
    """Returns the seconds from the begin of a window to that of the next, once `times` windows were taken.

    `pace` shortens what is not a matter of cost, where the agent runs in a simulated fleet's time.
    """
    pause = REFUSED_S if window.error else AGAIN_S if times < OFTEN else LATER_S
    return max(pause * pace, window.cpu_s / SHARE)


def take_window(py_spy: str, pid: int, folder: str, span: int) -> StackProfile:
    """Records a process and those below it twice in the same seconds: all looks, and those in which a thread ran."""
    make_folder(folder)
    where, numbers = _directory_of(pid), numbers_of(pid)
    runs = [
        Recording(py_spy, pid, span, PER_S, os.path.join(folder, name), ["--subprocesses", "--full-filenames", *more])
        for name, more in (("profile.raw", ["--function", "--idle"]), ("running.raw", ["--function"]))
    ]
    every, running = (run.end() for run in runs)
    (main, below), (main_ran, below_ran) = (read_recorded(one.text, numbers, where) for one in (every, running))
    cpu_s = every.cpu_s + running.cpu_s
    if not main:
        return StackProfile(0.0, cpu_s, error=f"py-spy read no stacks: {every.error or 'no main thread of Python'}")
    return StackProfile(float(span), cpu_s, group_of(main, main_ran), group_of(below, below_ran))


def _directory_of(pid: int) -> str:
    """Returns where the process works, in its own container's words; "" where that cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
