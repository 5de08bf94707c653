"""`costguard serve` as a person starts it, forked from a process that has everything imported: see tests/web_forks.py.

A start costs a tenth of a second of a core in place of three, and what serves for it as little. Tests of the start
itself, of the environment and of the command line of a process start the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO

from tests.web_forks import WebForks, forks

import costguard.main
from costguard.cli.app import main
from costguard.db import migrate  # noqa: F401 - every guard loads it as it starts
from costguard.main import guard, serve  # noqa: F401 - loaded when they are first named
from costguard.processes import web_process


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


class ForkedProgram(ForkedGuard):
    """Offers the same of a Popen whose output a test reads."""

    def __init__(self, process: BaseProcess, stdout: IO[str], stderr: IO[str]) -> None:
        super().__init__(process)
        self.stdout, self.stderr = stdout, stderr

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Returns what it still prints, and all of its errors, once it and its other processes are over."""
        with self.stdout, self.stderr:
            self.wait(timeout)
            return self.stdout.read(), self.stderr.read()


def start(arguments: Sequence[str], environ: Mapping[str, str], out: Path, errors: Path) -> ForkedGuard:
    """`costguard ARGUMENTS`, which appends its output to these files."""
    return ForkedGuard(_begin(arguments, environ, None, partial(_into_files, out, errors)))


def begin(arguments: Sequence[str], environ: Mapping[str, str], folder: Path) -> ForkedProgram:
    """`costguard ARGUMENTS` in this folder, by which tests/sandbox/guest/served_vms.py knows its processes."""
    (out, prints), (errors, complains) = forks.Pipe(duplex=False), forks.Pipe(duplex=False)
    with out, prints, errors, complains:
        process = _begin(arguments, environ, folder, partial(_into_pipes, prints, complains))
        return ForkedProgram(process, _text(out), _text(errors))


def _text(pipe: Connection) -> IO[str]:
    return os.fdopen(os.dup(pipe.fileno()), encoding="utf-8")


def _begin(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None, speak: Callable[[], None]
) -> BaseProcess:
    process = forks.Process(target=_become, args=(list(arguments), dict(environ), folder, speak), daemon=True)
    process.start()
    return process


def _into_files(out: Path, errors: Path) -> None:
    for number, path in ((1, out), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)


def _into_pipes(prints: Connection, complains: Connection) -> None:
    for number, pipe in ((1, prints), (2, complains)):
        with pipe:
            os.dup2(pipe.fileno(), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115 - to the end


def _become(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None, speak: Callable[[], None]
) -> None:
    speak()
    if folder is not None:
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["costguard", *arguments]
    costguard.main.start_web_processes = partial(web_process.start_web_processes, spawn=WebForks().spawn)
    main()
