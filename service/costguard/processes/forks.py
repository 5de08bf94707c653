"""Forks serving processes from one that has imported what all of them need: they share its memory (fork(2)).

The one that forks has a single thread. Each fork loses its parent at once, so that the watching process becomes the
parent (prctl(2), PR_SET_CHILD_SUBREAPER), and says which process it is by a file descriptor (pidfd_open(2)).
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from costguard.memory import give_back

_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_BETWEEN = "+"  # on a command line, between one role and the next
_MOST_BYTES = 32  # of a process's id, as it is sent
_UNKNOWN_CODE = 255  # as multiprocessing has it: another part of the process took the exit code


class ServingRole(NamedTuple):
    """The part that a process plays: what it serves, and its sockets by their descriptors, of which the first is the
    wire.
    """

    serves: str
    descriptors: tuple[int, ...]


def words_of(roles: Sequence[ServingRole]) -> list[str]:
    """Returns the words of a command line that stand for these roles; the process that reads them plays the first."""
    words: list[str] = []
    for role in roles:
        words += [*([_BETWEEN] if words else []), role.serves, *map(str, role.descriptors)]
    return words


def roles_of(words: Sequence[str]) -> list[ServingRole]:
    """Returns the roles that these words of a command line stand for."""
    roles: list[ServingRole] = []
    rest = list(words)
    while rest:
        end = rest.index(_BETWEEN) if _BETWEEN in rest else len(rest)
        serves, *numbers = rest[:end]
        roles.append(ServingRole(serves, tuple(map(int, numbers))))
        rest = rest[end + 1 :]
    return roles


def fork_others(roles: Sequence[ServingRole]) -> ServingRole:
    """Forks a process for each role but the first, and returns in each process the role that it plays.

    A process keeps the descriptors of its own role alone. Where the system refuses to fork, the other end of the wire
    closes. To be called while the process has one thread.
    """
    give_back()
    gc.freeze()  # the search for garbage would write to, and so copy, whatever it looks at
    played = roles[0]
    with suppress(OSError):
        for role in roles[1:]:
            if (between := os.fork()) == 0:
                _leave_parent()
                played = role
                break
            os.waitpid(between, 0)
    for number in {number for role in roles for number in role.descriptors} - set(played.descriptors):
        os.close(number)
    if played is not roles[0]:
        _introduce(played)
    return played


def _leave_parent() -> None:
    try:
        child = os.fork()
    except OSError:
        os._exit(1)
    if child:
        os._exit(0)


def _introduce(role: ServingRole) -> None:
    """Sends the id of this process over its wire, with a descriptor of the process."""
    try:
        with socket.socket(fileno=os.dup(role.descriptors[0])) as wire:
            pidfd = os.pidfd_open(os.getpid())
            socket.send_fds(wire, [b"%d" % os.getpid()], [pidfd])
            os.close(pidfd)
    except OSError:
        os._exit(1)  # nobody can end it, or wait for its end


def name_process(name: str) -> None:
    """Sets the name that `ps -o comm` shows: the command line of a fork stays that of the process that forked it."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, "ascii")


def step_back(nicer_by: int, killed_first: int) -> None:
    """Has this process give way for the CPU, and where memory runs out: the highest `killed_first` of all ends first.

    A system that refuses is left as it is.
    """
    with suppress(OSError):
        os.nice(nicer_by)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(killed_first), "ascii")


def adopt_orphans() -> bool:
    """Makes this process the parent of processes below it that lose theirs; False where the system cannot do that."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def introduced(end: socket.socket, patience_s: float) -> Fork | None:
    """Returns the fork that introduced itself over its wire; None: there is none, or it said nothing in time."""
    end.settimeout(patience_s)
    try:
        word, descriptors, _flags, _address = socket.recv_fds(end, _MOST_BYTES, 1)
    except OSError:
        return None
    finally:
        end.settimeout(None)
    return Fork(int(word), descriptors[0]) if descriptors else None


class Fork:
    """A child process that a process below this one forked, with the methods of a Popen that a guard uses."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._code: int | None = None
        self._taking = threading.Lock()  # the system gives the exit code away once, and two threads wait for it

    def wait(self, timeout: float | None = None) -> int:
        """Returns its exit code, or the number of the signal that ended it, negated. Raises TimeoutExpired."""
        if self._code is None:
            ended = select.poll()
            ended.register(self._pidfd, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        with self._taking:
            if self._code is None:
                self._code = self._exit_code()
        return self._code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def close(self) -> None:
        """Lets go of its descriptor. It must have been waited for."""
        with self._taking:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _send(self, number: signal.Signals) -> None:
        with self._taking, suppress(ProcessLookupError):
            if self._code is None:
                signal.pidfd_send_signal(self._pidfd, number)

    def _exit_code(self) -> int:
        try:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            return _UNKNOWN_CODE
        if ended is None:
            return _UNKNOWN_CODE
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
