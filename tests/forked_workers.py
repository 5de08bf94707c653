"""Forks pytest-xdist's workers from a process that has collected the tests: each would import all of them itself.

Collecting the suite takes 7 s of a processor, and 1.5 s in a fork of a process that has done so (30 November 2026).

A worker is begun as execnet begins any other, from a command whose standard streams it speaks on: the command hands
these to the process that forks, and ends when the worker does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

ROOT = Path(__file__).resolve().parent.parent
_STREAMS = (0, 1, 2)


@contextmanager
def forked_workers(count: int, arguments: Sequence[str]) -> Iterator[list[str]]:
    """Yields the options with which pytest uses so many workers.

    `arguments` say which tests to collect. Nothing is printed of that: the test run itself reports what is wrong.
    """
    if sys.platform != "linux":  # elsewhere what is loaded may not bear a fork
        yield ["-n", str(count)]
        return
    with tempfile.TemporaryDirectory(prefix="costguard-workers-") as folder:
        address = f"{folder}/workers"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(address)
            listening.listen(count)
            mother = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_workers", "fork", str(listening.fileno()), *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,  # which ends it
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(listening.fileno(),),
            )
        assert mother.stdin is not None
        try:
            begin = shlex.join([sys.executable, "-m", "tests.forked_workers", "begin", address])
            yield ["--tx", f"{count}*popen//python={begin}"]
        finally:
            mother.stdin.close()
            mother.wait()


def _begin(address: str) -> None:
    """Has a worker forked that speaks on this process's streams, and waits for its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(address)
        socket.send_fds(asking, [b"streams"], _STREAMS)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):  # the worker's alone: the end of one is that of the other's
            os.dup2(nothing, stream)
        with contextlib.suppress(KeyboardInterrupt):  # the worker gets it too
            asking.recv(1)


def _fork_when_asked(listening: socket.socket, life: BinaryIO) -> socket.socket | None:
    """Returns None once `life` ends, and in each worker the connection on which its streams come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest
    workers = set()
    while listening.fileno() in select.select([listening.fileno(), life.fileno()], [], [])[0]:
        connection = listening.accept()[0]
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return connection
        connection.close()
        workers.add(pid)
    for pid in workers:
        os.waitpid(pid, 0)
    return None


def _work(connection: socket.socket) -> None:
    """Becomes a worker, as `python -c` with execnet's line would."""
    _, streams, _, _ = socket.recv_fds(connection, 100, len(_STREAMS))
    for ours, given in zip(_STREAMS, streams, strict=True):
        os.dup2(given, ours)
        os.close(given)
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1)  # and not a byte more: what follows is for the worker
    sys.argv[:] = ["-c"]
    sys.modules["__main__"] = main = ModuleType("__main__")  # what multiprocessing starts would import this one
    exec(eval(line), vars(main))


def _main(does: str, given: str, *arguments: str) -> None:
    if does == "begin":
        _begin(given)
        return
    import pytest  # which what begins a worker does not need

    with socket.socket(fileno=int(given)) as listening:
        pytest.main(["--collect-only", "-qq", *arguments, "-n0"])
        gc.collect()
        gc.freeze()
        gc.disable()  # until the worker has collected
        connection = _fork_when_asked(listening, sys.stdin.buffer)
    if connection is not None:
        with connection:  # to the worker's end, which `_begin` waits for
            _work(connection)


if __name__ == "__main__":
    _main(*sys.argv[1:])
