"""Starts agents that need not load their modules: a process that has loaded them becomes one, 0.3 s sooner.

Each is a process of its own, with the arguments, variables and files of one that was started from the file; its runner,
and what it executes in its own place, are started from the file as ever. The tests of the bundle and of a boot start
the file itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Reads what the next agent is given, and a pipe with it. A process in between waits for the agent: it writes the
# agent's id to the pipe and, at its end, its exit code as `waitpid` tells it.
_MOTHER = """
import gc, json, os, runpy, socket, sys
agent, asked = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
sys.path.insert(0, agent)
import costguard_vm.agent.main
gc.freeze()
def become(given):
    os.chdir("/")
    spoken = os.open(given["spoken"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(spoken, 1)
    os.dup2(spoken, 2)
    os.close(spoken)
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[:] = [agent]
    try:
        runpy.run_path(agent, run_name="__main__")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)
between = set()
while True:
    words, pipes, _, _ = socket.recv_fds(asked, 1 << 16, 1)
    between -= {pid for pid in between if os.waitpid(pid, os.WNOHANG)[0]}
    if not words:
        break
    waits = os.fork()
    if waits == 0:
        asked.close()
        pid = os.fork()
        if pid == 0:
            os.close(pipes[0])
            become(json.loads(words))
        os.write(pipes[0], b"%d " % pid)
        os.write(pipes[0], b"%d " % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    between.add(waits)
    os.close(pipes[0])
"""


class LoadedAgent:
    """Offers as much of a Popen as the tests use."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._words = b""
        self._read_until(1, 60)
        self.pid = int(self._words.split()[0])

    def __del__(self) -> None:
        os.close(self._pipe)

    def poll(self) -> int | None:
        return int(self._words.split()[1]) if self._read_until(2, 0) else None

    def wait(self, timeout: float) -> int:
        if not self._read_until(2, timeout):
            raise subprocess.TimeoutExpired("agent", timeout)
        return int(self._words.split()[1])

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its parent may have waited for it since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_until(self, count: int, timeout: float) -> bool:
        until = time.monotonic() + timeout
        while self._words.count(b" ") < count:
            if not select.select([self._pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
            read = os.read(self._pipe, 100)
            assert read, "the process that becomes agents has ended"
            self._words += read
        return True


class LoadedAgents:
    def __init__(self, mother: socket.socket) -> None:
        self._mother = mother

    def start(self, environment: Mapping[str, str], spoken: Path) -> LoadedAgent:
        pipe, its_end = os.pipe()
        words = json.dumps({"environment": environment, "spoken": str(spoken)}).encode()
        socket.send_fds(self._mother, [words], [its_end])
        os.close(its_end)
        return LoadedAgent(pipe)


@contextmanager
def loaded_agents(agent: Path) -> Iterator[LoadedAgents]:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        mother = subprocess.Popen(
            [sys.executable, "-I", "-c", _MOTHER, str(agent), str(its.fileno())],
            pass_fds=(its.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        its.close()
        yield LoadedAgents(ours)
        ours.close()
        mother.wait(60)
