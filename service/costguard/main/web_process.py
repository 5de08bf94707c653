"""Starts, monitors and restarts the serving process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple, Protocol

import structlog

from costguard.errors import CostguardError
from costguard.main.wire import Alive, Asked, Begin, Family, Message, State, Wake, Wire
from costguard.model.backoff import Backoff
from costguard.settings.environment import is_secret

_BACKLOG = 128
_TRIES, _BETWEEN_TRIES_S = 20, 0.1  # a guard that was killed leaves its port within moments


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Raises CostguardError where that cannot be."""
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; it would hold answers for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            _bind(listener, host, port)
        except OSError as error:
            raise CostguardError(
                f"Costguard cannot listen at {host}:{port}: {error.strerror}.",
                "Choose another port under [server] listen, or with --listen.",
            ) from error
        yield listener


def address_of(host: str, listener: socket.socket) -> str:
    """`http://HOST:PORT`, with the port that the system chose where it was left to it."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _bind(listener: socket.socket, host: str, port: int) -> None:
    pause = threading.Event()
    for tries_left in reversed(range(_TRIES)):
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries_left:
                raise
            pause.wait(_BETWEEN_TRIES_S)
        else:
            return


_SAY_AT_LEAST_EVERY_S = 1.0
_LOOK_EVERY_S = 0.2  # for something new to say
_LISTEN_S = 1.0
_FROZEN_AFTER = 60  # of those, in a row, without a word from a process that served
_STUCK_S = 30.0  # how long it may leave unread what it is sent
_BACKOFF = Backoff(timedelta(seconds=0.5), timedelta(seconds=30))  # between two starts
_STEADY_S = 60.0  # one that lived this long is started again without delay
_GONE_S = 5.0  # between the end of its side of the wire and its own
_OF_SUPERVISORS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})  # for the watching process alone

log = structlog.get_logger(__name__)


class Process(Protocol):
    """The methods of a started process, as `subprocess.Popen` has them."""

    @property
    def pid(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Spawn = Callable[[socket.socket, socket.socket], Process]  # of its end of the wire, and the socket to listen at


def spawned(wire: socket.socket, listener: socket.socket) -> Process:
    """A fresh interpreter. It inherits the two sockets and no more; what it is to know comes over the wire."""
    numbers = (wire.fileno(), listener.fileno())
    return subprocess.Popen(  # noqa: S603 - no shell, and no argument comes from outside
        [sys.executable, "-m", "costguard.main.web", *map(str, numbers)],
        pass_fds=numbers,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Its secrets come over the wire, and only those that it uses.
        env={name: value for name, value in os.environ.items() if name not in _OF_SUPERVISORS and not is_secret(name)},
        start_new_session=True,  # Ctrl-C in the terminal is for the watching process, which ends this one
    )


@contextmanager
def start_web_process(host: str, port: int, spawn: Spawn = spawned) -> Iterator[WebProcess]:
    """Starts the serving process. Raises CostguardError where it cannot listen."""
    with listening(host, port) as listener, WebProcess(listener, address_of(host, listener), spawn) as web:
        yield web


class _Run(NamedTuple):
    """A process and our end of its wire."""

    process: Process
    wire: Wire


class WebProcess:
    """Started at once, so that it imports what it needs while the watching process makes the database ready.

    When it ends, it is started again with backoff: the watch goes on without it. It ends with the `with` block, and by
    itself when the watching process is gone.
    """

    def __init__(self, listener: socket.socket, url: str, spawn: Spawn = spawned) -> None:
        self.url = url
        self._listener = listener
        self._spawn = spawn
        self._stop = threading.Event()
        self._settled = threading.Event()  # it served once, or never will
        self._has_served = self._serves = False
        self._guard = threading.Lock()  # none is started once we are to stop
        self._threads: list[threading.Thread] = []
        self._alive: Callable[[], None] = lambda: None
        self._run = self._started()

    def __enter__(self) -> WebProcess:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.ask_to_stop()
        self.wait_for_end(_GONE_S)
        self._run.wire.close()

    @property
    def pid(self) -> int:
        return self._run.process.pid

    def begin(
        self,
        begin: Begin,
        state: Callable[[], State],
        metrics: Callable[[], tuple[Family, ...]],
        wake: Mapping[Asked, Callable[[], None]],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Have it serve. `state` and `metrics` are asked from a thread, and answer whatever the database does.

        `alive` is called every second while it answers requests.
        """
        self._alive = alive
        self._threads = [
            threading.Thread(target=self._say, args=(begin, state, metrics), name="web-say", daemon=True),
            threading.Thread(target=self._watch, args=(wake,), name="web-watch", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def has_served(self, patience_s: float | None = None) -> bool | None:
        """Says whether it came to serving; False: it ended before, and is not started again.

        None: it is not known yet.
        """
        return self._has_served if self._settled.wait(patience_s) else None

    def ask_to_stop(self) -> None:
        """It answers what it was asked, and ends."""
        with self._guard:
            self._stop.set()
            self._run.process.terminate()

    def wait_for_end(self, patience_s: float) -> None:
        """Waits for its end; after that time it is killed."""
        try:
            self._run.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._run.process.kill()
            self._run.process.wait()
        for thread in self._threads:
            thread.join(_GONE_S)

    def _started(self) -> _Run:
        ours, theirs = socket.socketpair()
        with theirs:
            return _Run(self._spawn(theirs, self._listener), Wire(ours))

    def _watch(self, wake: Mapping[Asked, Callable[[], None]]) -> None:
        ends = 0  # in a row, soon after a start
        while True:
            began_s = time.monotonic()
            try:
                self._listen(self._run, wake)
            except (OSError, ValueError) as error:
                log.error("web_process_not_understood", error=str(error))
            code = _ended(self._run.process)
            self._serves = False
            if self._stop.is_set():
                return
            if not self._has_served:
                log.error("web_process_did_not_start", how=_how(code))
                self._settled.set()
                return
            ends = 1 if time.monotonic() - began_s > _STEADY_S else ends + 1
            wait_s = _BACKOFF.after(ends).total_seconds()
            log.error("web_process_ended", how=_how(code), started_again_in_s=wait_s, watch="goes on")
            if self._stop.wait(wait_s):
                return
            with self._guard:
                if self._stop.is_set():
                    return
                self._run.wire.close()
                self._run = self._started()

    def _listen(self, run: _Run, wake: Mapping[Asked, Callable[[], None]]) -> None:
        """Until it is gone, or as good as gone. Raises OSError and ValueError."""
        silent = 0
        while True:
            try:
                message = run.wire.receive(_LISTEN_S)
            except TimeoutError:
                silent += 1
                if self._serves and silent >= _FROZEN_AFTER:
                    log.error("web_process_frozen", silent_for_s=silent * _LISTEN_S)
                    run.process.kill()
                    return
                continue
            silent = 0
            match message:
                case None:
                    return
                case Wake():
                    wake[message.what]()
                case Alive():
                    self._alive()
                    self._serves = self._has_served = True
                    self._settled.set()

    def _say(self, begin: Begin, state: Callable[[], State], metrics: Callable[[], tuple[Family, ...]]) -> None:
        """Sends messages. Those to a process that ended are lost: the next one begins from the beginning."""
        heard_by: _Run | None = None
        said, said_at_s = State(), 0.0
        while True:
            run, now = self._run, state()
            is_new = run is not heard_by
            if is_new or now != said or time.monotonic() - said_at_s >= _SAY_AT_LEAST_EVERY_S:
                words: list[Message] = [begin] if is_new else []
                _send(run, [*words, now.model_copy(update={"metrics": metrics()})])
                heard_by, said, said_at_s = run, now, time.monotonic()
            if self._stop.wait(_LOOK_EVERY_S):
                return


def _send(run: _Run, words: Sequence[Message]) -> None:
    try:
        for message in words:
            run.wire.send(message, _STUCK_S)
    except TimeoutError:
        log.error("web_process_frozen", unread_for_s=_STUCK_S)
        run.process.kill()
    except OSError:
        pass  # it is gone, as the thread that listens finds, too


def _ended(process: Process) -> int:
    """Returns its exit code; a process that only let go of the wire is ended after a while."""
    try:
        return process.wait(_GONE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _how(code: int) -> str:
    if code >= 0:
        return f"it exited with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    memory = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"it was killed by {name}{memory}"
