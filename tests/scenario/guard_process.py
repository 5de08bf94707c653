"""Guards in processes of their own, by the simulated cloud's clock. They serve until SIGTERM; tests also use SIGKILL.

They are forks of one process that has everything imported, so that a start costs a fraction of a second.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from google.cloud import compute_v1  # noqa: F401 - every guard loads it with its first request

from costguard.cli import demo_cloud
from costguard.main.guard import opened
from costguard.main.serve import serve
from costguard.settings import load

TOKEN = "a-token-for-tests-alone"

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__])


def begin(settings: Path, log: Path) -> tuple[BaseProcess, str]:
    """The process, and the address it listens at. Raises EOFError where it ended before: its log says why."""
    heard, said = _forks.Pipe(duplex=False)
    process = _forks.Process(target=_run, args=(settings, log, said), daemon=True)
    process.start()
    said.close()
    with heard:
        return process, str(heard.recv())


def _run(path: Path, log: Path, said: Connection) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    settings = load(path, {"COSTGUARD_TOKEN": TOKEN})
    cloud = settings.compute.endpoint
    assert cloud is not None
    clock = demo_cloud.clock_of(cloud)
    with opened(settings, clock, demo_cloud.speed_of(cloud)) as guard:
        serve(guard, lambda url, _server: said.send(url))
