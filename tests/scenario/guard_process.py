"""Guards in processes of their own, by the simulated cloud's clock. They serve until SIGTERM; tests also use SIGKILL.

They are forks of one process that has everything imported, so that a start costs a fraction of a second, and so are
the processes that serve.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.web_forks import WebForks, forks

from costguard.cli.demo import cloud as demo_cloud
from costguard.main.serve import service
from costguard.processes.web_process import start_web_processes
from costguard.settings import load

TOKEN = "a-token-for-tests-alone"


def begin(settings: Path, log: Path) -> tuple[BaseProcess, str]:
    """The process, and the address it listens at. Raises EOFError where it ended before: its log says why."""
    receiver, said = forks.Pipe(duplex=False)
    process = forks.Process(target=_run, args=(settings, log, said), daemon=True)
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
        start_web_processes(server.host, server.port, server.workers, WebForks().spawn) as web,
        service(settings, web, clock, speed) as (_, guard),
    ):
        guard.run(said.send)
