"""Serves a guard's pages and reports from forks of a process that has everything imported.

A fresh interpreter imports for two seconds of a core before it serves, and every guard has two or three. A guard itself
has threads by the time it starts most of them, and a fork of it could find a lock held for ever: so a process is forked
from it before, which forks the others when the guard asks.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Collection
from pathlib import Path

from google.cloud import compute_v1  # noqa: F401 - every guard loads it with its first request

from costguard.main import (
    web,
    web_app,  # noqa: F401 - what serves needs it
)
from costguard.processes.serving_process import Process
from costguard.processes.wire import Wire
from costguard.settings.environment import is_secret

# The one process of which all guards are forks loads what any of them needs; it finds our modules in its folder.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    ["tests.built_before_forks", "tests.scenario.guard_process", "tests.forked_guard", "tests.frozen_before_forks"]
)

FORKS = "forks"  # the name of the process that forks the others
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2): orphans below become this process's children
_MOST_SOCKETS = 8


class WebForks:
    """Forks what serves for this process. To be made while the process has no threads yet."""

    def __init__(self) -> None:
        assert threading.active_count() == 1
        if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl refused to make this process the parent of its orphans")
        self._asking, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        if os.fork() == 0:
            _close_all_but({0, 1, 2, requests.fileno()})
            _name(FORKS)
            _fork_when_asked(requests)
        requests.close()

    def spawn(self, serves: str, *sockets: socket.socket) -> Process:
        """Starts what `web_process.spawned` does: a child of this process that has these sockets."""
        with self._lock:
            socket.send_fds(self._asking, [serves.encode()], [one.fileno() for one in sockets])
            return Fork(int(self._asking.recv(100)))


class Fork:
    """A child process, with the methods of a Popen that a guard uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None
        self._taking = threading.Lock()  # the system gives the code away once, and two threads of a guard wait for it

    def wait(self, timeout: float | None = None) -> int:
        ends, pause = time.monotonic() + (timeout or 3600), threading.Event()
        while self._code is None:
            self._take()
            if self._code is None:
                if time.monotonic() > ends:
                    raise subprocess.TimeoutExpired("web", timeout or 0)
                pause.wait(0.02)
        return self._code

    def _take(self) -> None:
        with self._taking:
            if self._code is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, sign: signal.Signals) -> None:
        if self._code is None:
            os.kill(self.pid, sign)


def _fork_when_asked(requests: socket.socket) -> None:
    """Forks until the guard is gone. What is forked loses its parent at once, and so becomes the guard's child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the guard
    while True:
        words, numbers, _, _ = socket.recv_fds(requests, 100, _MOST_SOCKETS)
        if not words:
            os._exit(0)
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                _serve(words.decode(), numbers)
            os.write(writing, b"%d" % pid)
            os._exit(0)
        os.waitpid(between, 0)
        requests.send(os.read(reading, 100))
        for number in (reading, writing, *numbers):
            os.close(number)


def _serve(serves: str, numbers: list[int]) -> None:
    os.setsid()
    for name in [name for name in os.environ if is_secret(name)]:
        del os.environ[name]  # they come over the wire
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _close_all_but({2, *numbers})
    _name(serves)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    wire, *sockets = [socket.socket(fileno=number) for number in numbers]
    os._exit(web.serve(serves, Wire(wire), *sockets))


def _close_all_but(kept: Collection[int]) -> None:
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number not in kept:
            with contextlib.suppress(OSError):  # the folder's own
                os.close(number)


def _name(name: str) -> None:
    """Sets what `ps -o comm` shows: the command line stays that of the first of all forks."""
    Path("/proc/self/comm").write_text(name)
