"""`costguard serve` as a person starts it, forked from a process that has everything imported: see tests/web_forks.py.

A start costs a tenth of a second of a core in place of three, and what serves for it as little. Tests of the start
itself, of the environment and of the command line of a process start the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.web_forks import WebForks, forks

import costguard.main
from costguard.cli.app import main
from costguard.db import migrate  # noqa: F401 - every guard loads it as it starts
from costguard.main import guard, serve, web_process  # noqa: F401 - loaded when they are first named


class ForkedGuard:
    """Offers as much of a Popen as the tests use."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self._process, self.pid = process, process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("costguard", timeout or 0)
        return self._process.exitcode

    def send_signal(self, sign: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sign)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], environ: Mapping[str, str], out: Path, errors: Path) -> ForkedGuard:
    """`costguard ARGUMENTS`, which appends its output to these files."""
    process = forks.Process(target=_become, args=(list(arguments), dict(environ), out, errors), daemon=True)
    process.start()
    return ForkedGuard(process)


def _become(arguments: Sequence[str], environ: Mapping[str, str], out: Path, errors: Path) -> None:
    for number, path in ((1, out), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["costguard", *arguments]
    costguard.main.start_web_processes = partial(web_process.start_web_processes, spawn=WebForks().spawn)
    main()
