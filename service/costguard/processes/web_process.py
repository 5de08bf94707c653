"""Starts the serving processes, and ends them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from types import TracebackType
from typing import NamedTuple

from costguard.daemon.meters import summed
from costguard.processes.forks import ServingRole, adopt_orphans, introduced, words_of
from costguard.processes.listening import address_of, listening
from costguard.processes.loose import LooseTurns
from costguard.processes.serving_process import Process, RunningProcess, WebProcess
from costguard.processes.wire import (
    Asked,
    Begin,
    Checked,
    Family,
    State,
    Wire,
    families_of,
    metrics_of,
)
from costguard.settings.environment import is_secret

_MOST_HANDED_BYTES = 1 << 20  # of connections on their way to the process for reports; the system may allow less
_INTRODUCED_S = 2.0  # until a fork, which was made before the first process served, counts as gone
_GONE_S = 5.0  # between the end of its side of the wire and its own
_OF_SUPERVISORS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})  # for the watching process alone

Spawn = Callable[..., Process]  # called as `spawned` is; `forks` is given with `has_forks` alone


class Sockets(NamedTuple):
    """The sockets of a process to be started: what it serves, its end of the wire, and its others."""

    serves: str
    all: tuple[socket.socket, ...]

    @property
    def role(self) -> ServingRole:
        return ServingRole(self.serves, tuple(one.fileno() for one in self.all))


def spawned(serves: str, *sockets: socket.socket, forks: Iterable[Sockets] = ()) -> Process:
    """A fresh interpreter. It inherits these sockets and no more; what it is to know comes over the first, the wire.

    It forks what is to serve with the sockets of `forks` before it serves itself.
    """
    everyone = [Sockets(serves, sockets), *forks]
    return subprocess.Popen(  # noqa: S603 - no shell, and no argument comes from outside
        [sys.executable, "-m", "costguard.main.web", *words_of([one.role for one in everyone])],
        pass_fds={one.fileno() for started in everyone for one in started.all},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Its secrets come over the wire, and only those that it uses.
        env={name: value for name, value in os.environ.items() if name not in _OF_SUPERVISORS and not is_secret(name)},
        start_new_session=True,  # Ctrl-C in the terminal is for the watching process, which ends this one
    )


@contextmanager
def start_web_processes(host: str, port: int, count: int = 1, spawn: Spawn | None = None) -> Iterator[WebProcesses]:
    """Starts the first of `count` that serve pages. Raises CostguardError where it cannot listen.

    `spawn` starts each of them; without it the first one forks the others, where the system allows that.
    """
    has_forks = spawn is None and adopt_orphans()
    with (
        listening(host, port) as listener,
        WebProcesses(listener, address_of(host, listener), count, spawn or spawned, has_forks=has_forks) as web,
    ):
        yield web


class WebProcesses:
    """The processes that serve: `count` equal ones on one socket, and another one for agents' reports.

    The first is started at once, so that it imports what it needs while the watching process makes the database ready;
    the others begin once it serves, so that they do not delay its first answer. With `has_forks` it forks them, so that
    all share what it imported; one that ends is replaced by a fresh interpreter. They end with the `with` block.
    """

    def __init__(
        self, listener: socket.socket, url: str, count: int = 1, spawn: Spawn = spawned, *, has_forks: bool = False
    ) -> None:
        self.url = url
        self._listener, self._count, self._spawn = listener, count, spawn
        kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
        self._giving, self._taking = socket.socketpair(socket.AF_UNIX, kind)
        self._giving.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_HANDED_BYTES)
        self._stop = threading.Event()
        self._guard = threading.Lock()  # none is started once we are to stop
        self._wires: list[socket.socket] = []  # our ends, to forks that have not begun
        self._first = self._with_forks() if has_forks else self._started("pages")
        self._all = [self._first]

    def __enter__(self) -> WebProcesses:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.ask_to_stop()
        self.wait_for_end(_GONE_S)
        for process in self._all:
            process.close()
        for end in (self._giving, self._taking):
            end.close()

    def begin(
        self,
        begin: Begin,
        state: Callable[[], State],
        metrics: Callable[[], tuple[Family, ...]],
        wake: Mapping[Asked, Callable[[], None]],
        alive: Callable[[], None] = lambda: None,
        checked: Callable[[], Checked | None] = lambda: None,
        loose: LooseTurns | None = None,
    ) -> None:
        """Has them serve. `state`, `metrics` and `checked` are asked from threads, whatever the database does.

        `alive` is called every second while agents' reports are answered.
        """

        def start(process: WebProcess, sign: Callable[[], None] = lambda: None, *, shows_pages: bool = True) -> None:
            shown = loose if shows_pages else None
            process.begin(begin, state, lambda: (metrics(), self._counted_but_by(process)), wake, sign, checked, shown)

        def start_others() -> None:
            if not self._first.has_served():
                return
            with self._guard:
                if self._stop.is_set():
                    return
                reports, *others = [self._forked(serves) for serves in self._others]
                self._all += [reports, *others]
                start(reports, alive, shows_pages=False)  # before anybody may wait for their end
                for process in others:
                    start(process)

        start(self._first)
        threading.Thread(target=start_others, name="web-others", daemon=True).start()

    def has_served(self, patience_s: float | None = None) -> bool | None:
        """Says whether the first came to serving; False: it ended before, and is not started again.

        None: it is not known yet.
        """
        return self._first.has_served(patience_s)

    def ask_to_stop(self) -> None:
        """They answer what they were asked, and end."""
        with self._guard:
            self._stop.set()
            for end in self._wires:
                end.close()  # the fork at its other end has not begun, and ends
            self._wires.clear()
        for process in self._all:
            process.ask_to_stop()

    def wait_for_end(self, patience_s: float) -> None:
        """Waits for their end; after that time they are killed."""
        ends_s = time.monotonic() + patience_s
        for process in self._all:
            process.wait_for_end(max(0.0, ends_s - time.monotonic()))

    @property
    def _others(self) -> list[str]:
        """Returns what each process but the first serves."""
        return ["reports", *["pages"] * (self._count - 1)]

    def _sockets(self, serves: str) -> tuple[socket.socket, ...]:
        return (self._taking,) if serves == "reports" else (self._listener, self._giving)

    def _started(self, serves: str, run: RunningProcess | None = None) -> WebProcess:
        """Starts a process of its own, or goes on with the one that runs."""
        return WebProcess(serves, lambda wire: self._spawn(serves, wire, *self._sockets(serves)), run)

    def _with_forks(self) -> WebProcess:
        """Starts the first, which forks the others: each waits at its wire for the first message."""
        pairs = [socket.socketpair() for _ in range(self._count)]
        ours, theirs = socket.socketpair()
        forks = [
            Sockets(serves, (end, *self._sockets(serves))) for serves, (_, end) in zip(self._others, pairs, strict=True)
        ]
        run = RunningProcess(self._spawn("pages", theirs, *self._sockets("pages"), forks=forks), Wire(ours))
        for end in (theirs, *(end for _, end in pairs)):
            end.close()
        self._wires = [end for end, _ in pairs]
        return self._started("pages", run)

    def _forked(self, serves: str) -> WebProcess:
        """Returns the next fork; where it is not there, a process is started in its place."""
        if self._wires:
            end = self._wires.pop(0)
            fork = introduced(end, _INTRODUCED_S)
            if fork is not None:
                return self._started(serves, RunningProcess(fork, Wire(end)))
            end.close()
        return self._started(serves)

    def _counted_but_by(self, process: WebProcess) -> tuple[Family, ...]:
        """Sums the counts of all others and of those that this one replaced, so that no sum falls."""
        counts = [one.counted_before if one is process else (*one.counted_before, *one.counted) for one in self._all]
        return families_of(summed(metrics_of(chain.from_iterable(counts))))
