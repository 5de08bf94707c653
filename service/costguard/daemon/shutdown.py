"""Ends a process after a signal, within ten seconds whatever hangs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from costguard.signals import on_ending_signals

log = structlog.get_logger(__name__)

LONGEST_S = 9.0  # with a second to spare until the tenth


class Shutdown:
    """Bounds the time between the wish to end and the end. `end` ends the process on the spot.

    `asked` is the request to end, by a signal or by the caller.
    """

    def __init__(
        self,
        requested: threading.Event | None = None,
        longest_s: float = LONGEST_S,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self.requested = requested or threading.Event()
        self.exit_code = 0
        self._longest_s = longest_s
        self._end = end
        self._lock = threading.Lock()
        self._steps: dict[str, threading.Thread] = {}
        self._unfinished: Callable[[], Sequence[str]] = tuple
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Begins the shutdown: from now on the time runs. Begun twice, it runs from the first time."""
        self.requested.set()
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._longest_s, self._cut)
                self._timer.daemon = True
                self._timer.start()

    def run(
        self, steps: dict[str, Callable[[], object]], unfinished: Callable[[], Sequence[str]], for_s: float
    ) -> bool:
        """Take these steps at the same time; whether all ended in time. `unfinished` names what still runs."""
        self._unfinished = unfinished
        self._steps = {name: threading.Thread(target=step, name=name, daemon=True) for name, step in steps.items()}
        for thread in self._steps.values():
            thread.start()
        over = threading.Event()
        joiner = threading.Thread(target=_join, args=([*self._steps.values()], over), name="ending", daemon=True)
        joiner.start()
        return over.wait(for_s)

    def over(self) -> None:
        """All is finished: the process ends by itself, or goes on with something else."""
        if self._timer is not None:
            self._timer.cancel()

    def _cut(self) -> None:
        left = [*(name for name, step in self._steps.items() if step.is_alive()), *self._unfinished()]
        if left:  # otherwise all is written, and only the interpreter's own end takes its time
            log.error(
                "shutdown_cut_short",
                after_s=self._longest_s,
                left=", ".join(dict.fromkeys(left)),
                what_follows="what was being written is undone by the database, and the next start goes on from there",
            )
        sys.stdout.flush()
        sys.stderr.flush()
        self._end(self.exit_code)


@contextmanager
def ended_by_signals(shutdown: Shutdown) -> Iterator[None]:
    """SIGTERM and Ctrl-C begin the shutdown; a second one ends the process on the spot. For the main thread."""

    def end(number: int) -> None:
        if shutdown.requested.is_set():
            os._exit(128 + number)
        shutdown.exit_code = 130 if number == signal.SIGINT else 0
        shutdown.begin()

    with on_ending_signals(end):
        yield


def _join(threads: Sequence[threading.Thread], over: threading.Event) -> None:
    for thread in threads:
        thread.join()
    over.set()
