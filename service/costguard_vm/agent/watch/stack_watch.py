"""Where the command's main thread stands, over half a minute: py-spy reads its stacks without stopping it."""

from __future__ import annotations

import os
import subprocess
import threading
import time

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.files import make_folder, say
from costguard_vm.agent.settings import AttemptSettings, NotStarted
from costguard_vm.agent.transfers.tool import ToolFinder
from costguard_vm.diagnosis.signals import Minute, StackSignals
from costguard_vm.diagnosis.stacks import read_raw, summed_up

from .py_spy import Recording, numbers_of

SPAN_S, PER_S = 30, 5
AGAIN_S, OFTEN, LATER_S = 300.0, 6, 1800.0  # six times every five minutes, then every half hour
WAITS = 0.2  # share of time without a kernel


class StackWatch:
    """Looks when the GPUs wait, or there are none, and only where the owner allows it."""

    def __init__(self, settings: AttemptSettings, py_spy: ToolFinder, folder: str) -> None:
        self._settings, self._py_spy, self._folder = settings, py_spy, folder
        self._result: StackSignals | None = None
        self._thread: threading.Thread | None = None
        self._began, self._times = float("-inf"), 0

    def take(self) -> StackSignals | None:
        """Takes the result, once for each half minute of looks."""
        result, self._result = self._result, None
        return result

    def after(self, minute: Minute, main: int | None) -> None:
        """Begins where this minute calls for it."""
        pause = AGAIN_S if self._times < OFTEN else LATER_S
        is_due = time.monotonic() - self._began >= pause * self._settings.activity_s / 60
        if self._settings.stacks and main and is_due and is_waiting(minute) and not self._is_busy():
            self._began, self._times = time.monotonic(), self._times + 1
            self._thread = threading.Thread(target=self._look, args=(main,), daemon=True)
            self._thread.start()

    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _look(self, pid: int) -> None:
        try:
            self._result = self._signals(pid)
        except (OSError, subprocess.SubprocessError, TransferFailed, NotStarted) as problem:
            say(f"stacks cannot be read: {problem}")
            self._result = StackSignals(looks=0.0, error=str(problem)[:120])

    def _signals(self, pid: int) -> StackSignals:
        path = self._py_spy.path(lambda seconds: threading.Event().wait(seconds))
        make_folder(self._folder)
        every, locked = (os.path.join(self._folder, name) for name in ("stacks.raw", "locked.raw"))
        span = max(1, round(SPAN_S * self._settings.activity_s / 60))
        looks = ((every, "--idle"), (locked, "--gil"))
        runs = [Recording(path, pid, span, PER_S, output, [which]) for output, which in looks]
        ends = [one.end() for one in runs]
        stacks, holding = (read_raw(end.text, numbers_of(pid)) for end in ends)
        if not stacks:
            why = ends[0].error or "no main thread"
            return StackSignals(looks=0.0, error=f"py-spy read no stacks: {why}"[:120])
        return summed_up(stacks, min(1.0, sum(holding.values()) / sum(stacks.values())))


def is_waiting(minute: Minute) -> bool:
    """Says whether a GPU waits for a fifth of the time, or the VM has none, so that nothing else shows a wait."""
    if minute.gpus is None:
        return False
    shares = [gpu.kernel_active for gpu in minute.gpus if gpu.kernel_active is not None]
    return not minute.gpus or (bool(shares) and 1 - min(shares) > WAITS)
