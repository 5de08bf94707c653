"""Looks at many projects at once, of which those that hang hold up no other."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import structlog

from costguard.model.observation import Observation

_TOGETHER = 100  # looks that are recorded at once
_MOST_VMS = 5_000  # VMs that came whole and wait to be recorded; the next look waits then
_LINGER_S = 0.25  # a look waits for others to be recorded with
_MOST_LATE = 32  # threads for looks that are late
_NEVER = datetime.min.replace(tzinfo=UTC)

log = structlog.get_logger(__name__)


class Arrived(NamedTuple):
    """A look that ended, and when by the monotonic clock."""

    project: str
    observation: Observation
    ended_s: float
    error: BaseException | None = None  # what ended it, which ends the pass, too


_Arrivals: TypeAlias = "queue.SimpleQueue[Arrived]"
Take: TypeAlias = Callable[[_Arrivals, float | None], Arrived | None]
"""Takes the next arrival, and waits for it at most so many seconds; None: as long as it takes."""


def _take(arrivals: _Arrivals, timeout_s: float | None) -> Arrived | None:
    try:
        return arrivals.get(timeout=timeout_s)
    except queue.Empty:
        return None


def _in_thread(project: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=f"observe {project}", daemon=True).start()


class Looking:
    """Looks at projects for one pass after the other, `parallel` of them at a time. `look` never raises.

    A look that takes longer than `patience_s` is late: the next project takes its place, the pass does not wait for it,
    and its result comes with the pass in which it ends, or that is made for those that `ended`. A project whose last
    look was late takes no place until one comes in time. A pass that would have nothing at all waits.
    """

    def __init__(
        self,
        look: Callable[[str, datetime | None], Observation],
        parallel: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        start: Callable[[str, Callable[[], None]], None] | None = None,
        take: Take = _take,
    ) -> None:
        self._look, self._parallel = look, max(1, parallel)
        self._patience_s: float | None = None
        self._monotonic, self._start, self._take = monotonic, start or _in_thread, take
        self._lock = threading.Lock()
        self._arrivals: _Arrivals = queue.SimpleQueue()
        self._waiting: deque[str] = deque()
        self._since: Mapping[str, datetime | None] = {}
        self._prompt: dict[str, float] = {}  # looks in time, and when they began
        self._late: dict[str, float] = {}
        self._slow: set[str] = set()  # projects whose last look was late
        self._ended: set[str] = set()  # looks that ended and are not taken yet
        self._vms = 0  # that came whole with them

    @property
    def late(self) -> frozenset[str]:
        """The projects whose looks go on, and of which the pass that is over knows nothing new."""
        with self._lock:
            return frozenset(self._late)

    @property
    def ended(self) -> frozenset[str]:
        """The projects whose looks ended, and wait for a pass to take them."""
        with self._lock:
            return frozenset(self._ended)

    def batches(
        self, projects: Sequence[str], since: Mapping[str, datetime | None], patience_s: float | None
    ) -> Iterator[list[Observation]]:
        """Yields what was seen, some looks at a time, in the order of `projects`. No project comes twice.

        `since`: from when on operations of each project are read. Who leaves off gets what was not yielded, and what
        then goes on, with the next pass. Without `patience_s` the pass waits for all.
        """
        place = {project: number for number, project in enumerate(projects)}
        ready = self._begin(projects, since, patience_s)
        delivered = False
        while True:
            self._note_late()
            self._fill()
            is_over = self._is_over(delivered or bool(ready))
            lingered = bool(ready) and self._monotonic() - ready[0].ended_s >= _LINGER_S
            if ready and (is_over or lingered or len(ready) >= _TOGETHER or self._vms >= _MOST_VMS):
                ready.sort(key=lambda one: place.get(one.project, len(place)))
                try:
                    yield [one.observation for one in ready if one.project in place]
                finally:
                    self._taken(ready)
                ready, delivered = [], True
                continue
            if is_over:
                return
            arrived = self._take(self._arrivals, self._wait_s(ready[0].ended_s if ready else None))
            ready += [arrived] if arrived is not None else []
            ready += self._arrived()
            if error := next((one.error for one in ready if one.error is not None), None):
                raise error

    def _begin(
        self, projects: Sequence[str], since: Mapping[str, datetime | None], patience_s: float | None
    ) -> list[Arrived]:
        """Begins the looks, and returns those of earlier passes that ended meanwhile."""
        ready = self._arrived()
        with self._lock:
            self._patience_s, self._since = patience_s, since
            self._late |= self._prompt  # of a pass that was left off
            self._prompt.clear()
            going = self._late.keys() | {one.project for one in ready}
            begin = [project for project in projects if project not in going]
            apart = [project for project in begin if project in self._slow][: max(0, _MOST_LATE - len(self._late))]
            self._waiting = deque(project for project in begin if project not in self._slow)
            self._late |= dict.fromkeys(apart, self._monotonic())
        for project in apart:
            self._go(project)
        self._fill()
        return ready

    def _arrived(self) -> list[Arrived]:
        """All that came by now."""
        arrived = []
        while (one := self._take(self._arrivals, 0)) is not None:
            arrived.append(one)
        return arrived

    def _fill(self) -> None:
        """Begins the next looks, as long as there is place and what came is not too much."""
        begun = []
        with self._lock:
            while (
                self._waiting
                and len(self._prompt) < self._parallel
                and len(self._ended) < _TOGETHER
                and self._vms < _MOST_VMS
            ):
                begun.append(project := self._waiting.popleft())
                self._prompt[project] = self._monotonic()
        for project in begun:
            self._go(project)

    def _go(self, project: str) -> None:
        since = self._since.get(project)

        def run() -> None:
            error = None
            try:
                observation = self._look(project, since)
            except BaseException as ended_by:  # the pass raises it: it would else wait for ever
                observation, error = Observation(project, _NEVER, instances_complete=False), ended_by
            with self._lock:
                self._ended.add(project)
                self._vms += len(observation.instances)
                began = self._prompt.pop(project, None)
                if began is None:
                    began = self._late.pop(project)
                ended = self._monotonic()
                if self._patience_s is None or ended - began <= self._patience_s:
                    self._slow.discard(project)
                self._arrivals.put(Arrived(project, observation, ended, error))
            self._fill()

        self._start(project, run)

    def _taken(self, ready: Collection[Arrived]) -> None:
        with self._lock:
            self._ended.difference_update(one.project for one in ready)
            self._vms -= sum(len(one.observation.instances) for one in ready)
        self._fill()

    def _wait_s(self, first_s: float | None) -> float | None:
        """Returns how long nothing has to be done, unless a look ends; None: for any time."""
        with self._lock:
            ends = [] if first_s is None else [first_s + _LINGER_S]
            if self._patience_s is not None and len(self._late) < _MOST_LATE:
                ends += [began + self._patience_s for began in self._prompt.values()]
        return None if not ends else max(0.0, min(ends) - self._monotonic())

    def _note_late(self) -> None:
        if self._patience_s is None:
            return
        with self._lock:
            now = self._monotonic()
            over = [project for project, began in self._prompt.items() if now - began >= self._patience_s]
            over = over[: max(0, _MOST_LATE - len(self._late))]
            for project in over:
                self._late[project] = self._prompt.pop(project)
            new = [project for project in over if project not in self._slow]
            self._slow.update(over)
        for project in new:
            log.warning("project_late", project=project, patience_s=self._patience_s)

    def _is_over(self, has_some: bool) -> bool:
        """Says whether the pass has all that it waits for: those in time, or where there are none any look at all."""
        with self._lock:
            if not self._arrivals.empty() or self._prompt or self._waiting:
                return False
            return has_some or not self._late
