"""The init process of a VM: all its processes descend from it and end before it does.

Commands on standard input: `end SECONDS` is a soft-off, `cut` a power cut, `suspend` and `resume` are themselves. When
the input closes, because the simulated cloud has ended, the power is cut, too. Standard library alone: it runs on its
own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
DEV_NULL = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),)


STARTUP, SHUTDOWN = "startup-script", "shutdown-script"
_NEVER = float("inf")
_LOOKS_EVERY_S = 1.0  # grandchildren end without a SIGCHLD for us
_KILLS_EVERY_S = 0.05


class Process(NamedTuple):
    """`born` is in ticks since the boot."""

    pid: int
    parent: int
    session: int
    born: int

    @property
    def key(self) -> tuple[int, int]:
        """Distinguishes it from a later process with the same pid."""
        return self.pid, self.born


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that leaving a group or a session does not help to escape."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")


def look(pid: int) -> Process | None:
    """Looks at a process; None when there is no such process, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def descendants(ancestor: int) -> list[Process]:
    """All that live. A process forked during the search may be missed, so look again."""
    children: dict[int, list[Process]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (process := look(int(entry))):
            children.setdefault(process.parent, []).append(process)
    living, at = list(children.get(ancestor, ())), 0
    while at < len(living):
        living += children.get(living[at].pid, ())
        at += 1
    return living


def send(to: Iterable[Process], number: int) -> None:
    for process in to:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, with their exit codes (negative: a signal), and whether any is left."""
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
    """Signals to wait for together with other input."""

    def __init__(self, *numbers: int) -> None:
        self._inbox, outbox = os.pipe()
        for end in (self._inbox, outbox):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(outbox, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None, *others: int) -> tuple[bytes, list[int]]:
        """The signals received, and which of the other descriptors can be read."""
        ready = select.select([self._inbox, *others], [], [], seconds)[0]
        received = os.read(self._inbox, 4096) if self._inbox in ready else b""
        return received, [one for one in others if one in ready]


class InitProcess:
    """Starts the startup script and, at the end, terminates and kills everything in order."""

    def __init__(self, boot_s: float) -> None:
        self._boots_at = time.monotonic() + boot_s
        self._kills_at = _NEVER
        self._is_ending = False
        self._services: set[tuple[int, int]] = set()
        self._terminated: set[tuple[int, int]] = set()
        self._last_script = 0  # the session of the shutdown script, which may use the whole grace period

    def run(self) -> int:
        adopt_orphans()
        signals = Signals(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        inputs, text = [0], b""
        while True:
            received, ready = signals.wait(self._pause(), *inputs)
            if ready:
                more = os.read(0, 4096)
                *commands, text = (text + more).split(b"\n")
                for command in commands:
                    self._do(*command.decode().split())
                if not more:
                    inputs = []
            if not inputs or any(number != signal.SIGCHLD for number in received):
                self._do("cut")
            _, has_children = reap()
            if self._is_ending and not has_children:
                return 0
            self._proceed()

    def _pause(self) -> float | None:
        if not self._is_ending:
            return None if self._boots_at == _NEVER else max(0.0, self._boots_at - time.monotonic())
        left = self._kills_at - time.monotonic()
        return min(left, _LOOKS_EVERY_S) if left > 0 else _KILLS_EVERY_S

    def _do(self, command: str, seconds: str = "0") -> None:
        if command == "suspend":
            for _ in range(2):  # the second pass finds processes forked during the first
                send(descendants(os.getpid()), signal.SIGSTOP)
        elif command == "resume":
            send(descendants(os.getpid()), signal.SIGCONT)
        elif command in ("end", "cut"):
            self._kills_at = min(self._kills_at, time.monotonic() + float(seconds))
            if not self._is_ending and command == "end":
                self._soft_off()
            self._is_ending = True

    def _soft_off(self) -> None:
        """Ends processes as systemd does: first the services; each ends what it started in other sessions."""
        living = descendants(os.getpid())
        sessions = {process.session for process in living if process.parent == os.getpid()}
        services = [process for process in living if process.session in sessions]
        self._services = {process.key for process in services}
        self._terminate(services)
        if os.path.exists(SHUTDOWN):
            self._last_script = _start(SHUTDOWN)

    def _proceed(self) -> None:
        now = time.monotonic()
        if not self._is_ending:
            if now >= self._boots_at:
                self._boots_at = _NEVER
                _start(STARTUP)
            return
        living = descendants(os.getpid())
        if now >= self._kills_at:
            send(living, signal.SIGKILL)
        elif not any(process.key in self._services for process in living):
            self._terminate([process for process in living if process.session != self._last_script])

    def _terminate(self, processes: list[Process]) -> None:
        send((process for process in processes if process.key not in self._terminated), signal.SIGTERM)
        self._terminated |= {process.key for process in processes}


def _start(script: str) -> int:
    """Run a script in a session of its own; the shell runs it if it is not executable as it is."""
    path = os.path.abspath(script)
    try:
        return os.posix_spawn(path, [path], os.environ, file_actions=DEV_NULL, setsid=True)
    except OSError:
        return os.posix_spawn("/bin/sh", ["/bin/sh", path], os.environ, file_actions=DEV_NULL, setsid=True)


def main() -> int:
    """`init_process SECONDS`, in the VM's directory: boots after so many seconds."""
    return InitProcess(float(sys.argv[1])).run()
