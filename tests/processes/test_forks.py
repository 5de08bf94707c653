"""Serving processes are forks of the first, and are waited for, ended and replaced as if they were started alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from tests.waiting import until

from costguard.processes.forks import Fork, ServingRole, introduced, roles_of, words_of
from costguard.processes.serving_process import Process
from costguard.processes.web_process import Sockets, WebProcesses
from costguard.processes.wire import Alive, Begin, State, Wire

ROLES = [ServingRole("pages", (7, 3, 4)), ServingRole("reports", (9, 5)), ServingRole("pages", (10, 3, 4))]
FORKING = """
import os, sys, threading
from costguard.processes.forks import ServingRole, fork_others
wire, other, kept = map(int, sys.argv[1:])
played = fork_others([ServingRole("first", (kept,)), ServingRole("second", (wire, kept))])
opened = [number for number in (wire, other, kept) if os.path.exists(f"/proc/self/fd/{number}")]
if played.serves == "second":
    os.write(wire, b"%d %d" % (len(opened), os.getppid()))
    os.read(kept, 1)
    os._exit(7)
os.write(kept, b"%d" % len(opened))
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process that sleeps until the test ends it."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"], stdin=-1) as process:
        yield process
        process.kill()


def fork_of(process: subprocess.Popen[bytes]) -> Fork:
    return Fork(process.pid, os.pidfd_open(process.pid))


def test_roles_are_on_the_command_line() -> None:
    """The first role is the one of the process that reads the words, whether or not others follow."""
    words = words_of(ROLES)
    assert words == ["pages", "7", "3", "4", "+", "reports", "9", "5", "+", "pages", "10", "3", "4"]
    assert roles_of(words) == ROLES
    assert roles_of(["reports", "9", "5"]) == [ROLES[1]]


def test_process_is_waited_for_and_ended(sleeper: subprocess.Popen[bytes]) -> None:
    """The number of the signal says later that, for example, the kernel killed it."""
    fork = fork_of(sleeper)
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.01)
    fork.kill()
    assert fork.wait(60) == -signal.SIGKILL
    fork.terminate()  # nobody else has its id by now: the signal goes to a process, not to a number
    assert fork.wait() == -signal.SIGKILL
    fork.close()
    fork.kill()


def test_exit_code_is_known(sleeper: subprocess.Popen[bytes]) -> None:
    """The code of a process that exits by itself is the one that it gave."""
    fork = fork_of(sleeper)
    assert sleeper.stdin is not None
    sleeper.stdin.write(b"abc")
    sleeper.stdin.close()
    assert fork.wait(60) == 3


def test_fork_that_says_nothing_is_none() -> None:
    """A silent wire and a closed one both show that there is no fork."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert introduced(ours, 0.01) is None
        theirs.close()
        assert introduced(ours, 60) is None


def test_fork_loses_its_parent_and_keeps_its_own_sockets() -> None:
    """The one that forked lets go of the fork's wire, or its end would never be seen."""
    (ours, wire), (ours_kept, kept), (_unused, other) = [socket.socketpair() for _ in range(3)]
    numbers = [one.fileno() for one in (wire, other, kept)]
    command = [sys.executable, "-c", FORKING, *map(str, numbers)]
    with ours, ours_kept, _unused, other, subprocess.Popen(command, pass_fds=numbers) as process:
        wire.close()
        kept.close()
        fork = introduced(ours, 60)
        assert fork is not None
        assert fork.pid != process.pid
        opened, parent = ours.recv(100).split()
        assert int(opened) == 3  # `other` belongs to no role, so it stays open
        assert int(parent) != process.pid
        assert ours_kept.recv(100) == b"2"
        assert process.wait(60) == 0
        os.kill(fork.pid, 0)  # it goes on without the one that forked it
        ours_kept.send(b".")
        assert ours.recv(1) == b""


class Forking:
    """Starts processes that the test plays; forks introduce themselves as `introducing`, or are gone without it."""

    def __init__(self, introducing: subprocess.Popen[bytes] | None) -> None:
        self.made: list[str] = []
        self.forked: list[str] = []
        self.wires: list[Wire] = []
        self._introducing = introducing

    def __call__(self, serves: str, wire: socket.socket, *_: socket.socket, forks: Sequence[Sockets] = ()) -> Process:
        self.made.append(serves)
        self.wires.append(Wire(wire.dup()))
        for fork in forks:
            self.forked.append(fork.serves)
            if self._introducing is not None:
                pid = self._introducing.pid
                socket.send_fds(fork.all[0], [b"%d" % pid], [os.pidfd_open(pid)])
                self.wires.append(Wire(fork.all[0].dup()))
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_forks_serve_in_their_roles(sleeper: subprocess.Popen[bytes]) -> None:
    """They wait until the first serves; then each gets its first message over its own wire."""
    spawn = Forking(sleeper)
    with socket.socket() as listener, WebProcesses(listener, "", 2, spawn, has_forks=True) as web:
        assert (spawn.made, spawn.forked) == (["pages"], ["reports", "pages"])
        web.begin(Begin(settings={}, holder="one"), State, tuple, {})
        spawn.wires[0].send(Alive())
        for wire in spawn.wires:
            assert isinstance(wire.receive(60), Begin)
        assert spawn.made == ["pages"]
        sleeper.kill()
        for wire in spawn.wires:
            wire.close()


def test_process_is_started_where_a_fork_is_gone() -> None:
    """A system that refuses to fork costs memory, and no report."""
    spawn = Forking(None)
    with socket.socket() as listener, WebProcesses(listener, "", 2, spawn, has_forks=True) as web:
        web.begin(Begin(settings={}, holder="one"), State, tuple, {})
        spawn.wires[0].send(Alive())
        until(lambda: len(spawn.made) == 3)
        assert spawn.made == ["pages", "reports", "pages"]
        for wire in spawn.wires:
            wire.close()


def test_forks_end_when_the_guard_ends_before_they_begin(sleeper: subprocess.Popen[bytes]) -> None:
    """Their wire closes as soon as the guard is to stop."""
    spawn = Forking(sleeper)
    with socket.socket() as listener, WebProcesses(listener, "", 1, spawn, has_forks=True) as web:
        web.ask_to_stop()
        assert spawn.wires[1].receive(60) is None
        for wire in spawn.wires:
            wire.close()
