"""Monitors and restarts one serving process: what it is sent, what it says, and its end."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import chain
from typing import NamedTuple, Protocol

import structlog

from costguard.daemon.meters import summed
from costguard.model.backoff import Backoff
from costguard.processes.forks import Fork
from costguard.processes.loose import LooseTurns
from costguard.processes.wire import (
    Alive,
    Asked,
    AskLoose,
    Begin,
    Checked,
    Counts,
    Family,
    Message,
    State,
    Wake,
    Wire,
    families_of,
    metrics_of,
)

_SAY_AT_LEAST_EVERY_S = 1.0
_LOOK_EVERY_S = 0.2  # for something new to say
_LISTEN_S = 1.0
_FROZEN_AFTER = 60  # of those, in a row, without a word from a process that served
_STUCK_S = 30.0  # how long it may leave unread what it is sent
_BACKOFF = Backoff(timedelta(seconds=0.5), timedelta(seconds=30))  # between two starts
_STEADY_S = 60.0  # one that lived this long is started again without delay
_COUNTERS = frozenset({"counter", "histogram"})
_GONE_S = 5.0  # between the end of its side of the wire and its own

log = structlog.get_logger(__name__)


class Process(Protocol):
    """The methods of a started process, as `subprocess.Popen` has them."""

    @property
    def pid(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class RunningProcess(NamedTuple):
    """A process with our end of its wire."""

    process: Process
    wire: Wire

    def close(self) -> None:
        self.wire.close()
        if isinstance(self.process, Fork):
            self.process.close()


class WebProcess:
    """A serving process, started at once. `spawn` is given the process's end of the wire.

    When it ends, it is started again with backoff: the watch goes on without it. It ends by itself when the watching
    process is gone.
    """

    def __init__(
        self, serves: str, spawn: Callable[[socket.socket], Process], run: RunningProcess | None = None
    ) -> None:
        """`run` is a process that was started already."""
        self._serves_what, self._spawn = serves, spawn
        self.counted: tuple[Family, ...] = ()  # by the process that runs...
        self.counted_before: tuple[Family, ...] = ()  # ...and by those that have ended
        self._stop = threading.Event()
        self._settled = threading.Event()  # it served once, or never will
        self._has_served = self._serves = False
        self._guard = threading.Lock()  # none is started once we are to stop
        self._threads: list[threading.Thread] = []
        self._alive: Callable[[], None] = lambda: None
        self._run = run or self._started()

    def close(self) -> None:
        self._run.close()

    def begin(
        self,
        begin: Begin,
        state: Callable[[], State],
        metrics: Callable[[], tuple[tuple[Family, ...], tuple[Family, ...]]],
        wake: Mapping[Asked, Callable[[], None]],
        alive: Callable[[], None] = lambda: None,
        checked: Callable[[], Checked | None] = lambda: None,
        loose: LooseTurns | None = None,
    ) -> None:
        """Has it serve. `state`, `checked`, and `metrics`, the watch's and the others', are asked from a thread.

        `alive` is called every second while it answers requests.
        """
        self._alive = alive
        said = (begin, state, metrics, checked, loose)
        self._threads = [
            threading.Thread(target=self._say, args=said, name="web-say", daemon=True),
            threading.Thread(target=self._watch, args=(wake, loose), name="web-watch", daemon=True),
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

    def _started(self) -> RunningProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            return RunningProcess(self._spawn(theirs), Wire(ours))

    def _watch(self, wake: Mapping[Asked, Callable[[], None]], loose: LooseTurns | None) -> None:
        ends = 0  # in a row, soon after a start
        while True:
            began_s = time.monotonic()
            try:
                self._listen(self._run, wake, loose)
            except (OSError, ValueError) as error:
                log.error("web_process_not_understood", error=str(error))
            code = _ended(self._run.process)
            self._serves = False
            ended = (metric for metric in metrics_of((*self.counted_before, *self.counted)) if metric.type in _COUNTERS)
            self.counted_before, self.counted = families_of(summed(ended)), ()
            if self._stop.is_set():
                return
            if not self._has_served:
                log.error("web_process_did_not_start", serves=self._serves_what, how=_how(code))
                self._settled.set()
                return
            ends = 1 if time.monotonic() - began_s > _STEADY_S else ends + 1
            wait_s = _BACKOFF.after(ends).total_seconds()
            log.error(
                "web_process_ended",
                serves=self._serves_what,
                how=_how(code),
                started_again_in_s=wait_s,
                watch="goes on",
            )
            if self._stop.wait(wait_s):
                return
            with self._guard:
                if self._stop.is_set():
                    return
                self._run.close()
                self._run = self._started()

    def _listen(self, run: RunningProcess, wake: Mapping[Asked, Callable[[], None]], loose: LooseTurns | None) -> None:
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
                case AskLoose():
                    if loose is not None:
                        loose.ask(message)
                case Counts():
                    self.counted = message.metrics
                case Alive():
                    self._alive()
                    self._serves = self._has_served = True
                    self._settled.set()

    def _say(
        self,
        begin: Begin,
        state: Callable[[], State],
        metrics: Callable[[], tuple[tuple[Family, ...], tuple[Family, ...]]],
        checked: Callable[[], Checked | None],
        loose: LooseTurns | None,
    ) -> None:
        """Sends messages. Those to a process that ended are lost: the next one begins from the beginning."""
        heard_by: RunningProcess | None = None
        said, said_at_s = State(), 0.0
        counted: tuple[Family, ...] = ()
        sent: Checked | None = None
        loose_sent = 0  # the number of the last change
        while True:
            run, now, setup = self._run, state(), checked()
            is_new = run is not heard_by
            last, answers = (0, ()) if loose is None else loose.since(0 if is_new else loose_sent)
            if is_new or last != loose_sent or now != said or time.monotonic() - said_at_s >= _SAY_AT_LEAST_EVERY_S:
                words: list[Message] = [begin] if is_new else []
                watched, others = metrics()
                if others != counted or is_new:
                    words.append(Counts(metrics=others))
                if setup is not None and (is_new or setup is not sent):
                    words.append(setup)
                    sent = setup
                _send(run, chain(words, answers, [now.model_copy(update={"metrics": watched})]))
                loose_sent = last
                counted = others
                heard_by, said, said_at_s = run, now, time.monotonic()
            if self._stop.wait(_LOOK_EVERY_S):
                return


def _send(run: RunningProcess, words: Iterable[Message]) -> None:
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
