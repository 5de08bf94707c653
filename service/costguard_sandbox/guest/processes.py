"""All processes that come from this one, on Linux. Standard library alone: it runs beside the guests, by itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
DEV_NULL = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),)


class Process(NamedTuple):
    """`born` is in ticks since the boot."""

    pid: int
    parent: int
    session: int
    born: int

    @property
    def key(self) -> tuple[int, int]:
        """Tells it from a later process with the same number, whoever its parent is by now."""
        return self.pid, self.born


def adopt_orphans() -> None:
    """Descendants that lose their parent become our children: nobody gets away by leaving a group or a session."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")


def look(pid: int) -> Process | None:
    """None when there is no such process, or when it has ended and only waits for its parent to notice."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def descendants(of: int) -> list[Process]:
    """All that live. One that is made meanwhile may be missed, so whoever wants all looks again."""
    children: dict[int, list[Process]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (found := look(int(entry))):
            children.setdefault(found.parent, []).append(found)
    living, at = list(children.get(of, ())), 0
    while at < len(living):
        living += children.get(living[at].pid, ())
        at += 1
    return living


def send(to: Iterable[Process], number: int) -> None:
    for process in to:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, with their exit codes (below 0: a signal), and whether any is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = os.waitstatus_to_exitcode(status)


class Signals:
    """Signals as something to wait for, beside other input."""

    def __init__(self, *numbers: int) -> None:
        self._inbox, outbox = os.pipe()
        for end in (self._inbox, outbox):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(outbox, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None, *others: int) -> tuple[bytes, list[int]]:
        """The signals that came, and which of the other descriptors have something to read."""
        ready = select.select([self._inbox, *others], [], [], seconds)[0]
        came = os.read(self._inbox, 4096) if self._inbox in ready else b""
        return came, [one for one in others if one in ready]
