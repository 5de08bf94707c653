"""Guards in processes of their own, by the simulated cloud's clock. They serve until SIGTERM; tests also use SIGKILL.

They are forks of one process that has everything imported, so that a start costs a fraction of a second. So is the
process that serves, where it is the first: by then its guard has no threads.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from google.cloud import compute_v1  # noqa: F401 - every guard loads it with its first request

from costguard.cli.demo import cloud as demo_cloud
from costguard.main import web as web_main
from costguard.main import web_app  # noqa: F401 - what serves needs it
from costguard.main.serve import service
from costguard.main.web_process import Process, spawned, start_web_processes
from costguard.main.wire import Wire
from costguard.settings import load

TOKEN = "a-token-for-tests-alone"

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__])


def begin(settings: Path, log: Path) -> tuple[BaseProcess, str]:
    """The process, and the address it listens at. Raises EOFError where it ended before: its log says why."""
    receiver, said = _forks.Pipe(duplex=False)
    process = _forks.Process(target=_run, args=(settings, log, said), daemon=True)
    process.start()
    said.close()
    with receiver:
        return process, str(receiver.recv())


def _run(path: Path, log: Path, said: Connection) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    settings = load(path, {"COSTGUARD_TOKEN": TOKEN})
    cloud = settings.compute.endpoint
    assert cloud is not None
    clock = demo_cloud.clock_of(cloud)
    server, speed = settings.server, clock.speed
    with (
        start_web_processes(server.host, server.port, server.workers, _forked) as web,
        service(settings, web, clock, speed) as guard,
    ):
        guard.run(said.send)


def _forked(serves: str, wire: socket.socket, *sockets: socket.socket) -> Process:
    """Forks as `spawned` does, with all imported. A fork of a process with threads could find a lock held for ever."""
    if threading.active_count() > 1:
        return spawned(serves, wire, *sockets)
    child = os.fork()
    if child:
        return _Forked(child)
    kept = {0, 1, 2, *(inherited.fileno() for inherited in (wire, *sockets))}
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number not in kept:
            with contextlib.suppress(OSError):  # the folder's own
                os.close(number)
    os._exit(web_main.serve(serves, Wire(wire), *sockets))


class _Forked:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        ends, pause = time.monotonic() + (timeout or 3600), threading.Event()
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > ends:
                raise subprocess.TimeoutExpired("web", timeout or 0)
            else:
                pause.wait(0.02)
        return self._code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, sign: signal.Signals) -> None:
        if self._code is None:
            os.kill(self.pid, sign)
