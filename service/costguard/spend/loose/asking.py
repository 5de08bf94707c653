"""Asks Google for the loose things of many projects, of which those that hang hold up no other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from costguard.isolation import Isolated
from costguard.ledger.discovery.watch import Watched
from costguard.model.observation import LooseListing
from costguard.spend.loose.memory import AGAIN, LooseAnswer, LooseMemory

EVERY = timedelta(hours=1)
_PARALLEL = 6  # projects at the same time
_PATIENCE_S = 45.0  # for one project: the adapter itself gives up after thirty seconds
_MOST_LATE = 16  # threads for projects that are late

log = structlog.get_logger(__name__)


class LooseSource(Protocol):
    def __call__(self, project: str) -> LooseListing:
        """Lists the loose things of a project; what could not be read is in `unread`."""
        ...


def _in_thread(name: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


class LooseAsking:
    """Asks each watched project once in `every`, some at a time, and remembers the answers. Thread-safe.

    A project that takes longer than the patience is late: the next one takes its place, and its answer is remembered
    when it comes. It is asked apart from the others until it answers in time.
    """

    def __init__(
        self,
        source: LooseSource,
        watched: Watched,
        now: Callable[[], datetime],
        *,
        every: timedelta = EVERY,
        monotonic: Callable[[], float] = time.monotonic,
        start: Callable[[str, Callable[[], None]], None] | None = None,
    ) -> None:
        """`start` runs something under that name, in a thread unless it is given. `every` is of the guard's clock."""
        self.memory = LooseMemory()
        self._source, self._watched, self._now, self._every = source, watched, now, every
        self._monotonic, self._start = monotonic, start or _in_thread
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._prompt: dict[str, tuple[float, datetime]] = {}  # under way, and when they began
        self._late: dict[str, tuple[float, datetime]] = {}
        self._slow: set[str] = set()  # projects whose last answer was late

    def turn(self) -> None:
        """Begins with the projects that are due, and notes those that are late. Raises StoreError; waits for nobody."""
        watched = self._watched()
        self.memory.keep_only(watched)
        self._note_late()
        now = self._now()
        tried = {answer.project: answer.tried_at for answer in self.memory.answers(watched)}
        never = datetime.min.replace(tzinfo=now.tzinfo)
        due = [project for project in watched if not _is_within(now - tried.get(project, never), self._every)]
        self._ask(sorted(due, key=lambda project: tried.get(project, never)))

    def ask(self, projects: Collection[str] | None = None) -> None:
        """Asks these projects now, or all, but those that answered a moment ago. Waits for nobody."""
        wanted, now = self._watched() if projects is None else projects, self._now()
        recent = {one.project for one in self.memory.answers(wanted) if _is_within(now - one.tried_at, AGAIN)}
        self._ask([project for project in wanted if project not in recent])

    def ask_and_wait(self, within: timedelta) -> None:
        """Asks all projects, and waits for their answers, at most that time by the clock on the wall."""
        projects, now = self._watched(), self._now()
        self.ask(projects)
        self.memory.wait_until_tried(projects, now - AGAIN, within)

    def _ask(self, projects: Collection[str]) -> None:
        with self._lock:
            going = self._prompt.keys() | self._late.keys() | set(self._waiting)
            new = [project for project in projects if project not in going]
            apart = [project for project in new if project in self._slow][: max(0, _MOST_LATE - len(self._late))]
            self._waiting.extend(project for project in new if project not in self._slow)
            for project in apart:
                self._is_late(project, self._monotonic(), self._now())
        for project in apart:
            self._start(f"loose {project}", partial(self._one, project))
        self._fill()

    def _fill(self) -> None:
        """Starts as many threads as there is place for; each goes on with the next project until none waits."""
        while (project := self._next()) is not None:
            self._start("loose", partial(self._many, project))

    def _next(self) -> str | None:
        with self._lock:
            if not self._waiting or len(self._prompt) >= _PARALLEL:
                return None
            project = self._waiting.popleft()
            self._prompt[project] = self._monotonic(), self._now()
            return project

    def _many(self, first: str) -> None:
        project: str | None = first
        while project is not None:
            self._one(project)
            project = self._next()

    def _one(self, project: str) -> None:
        listing = None
        with Isolated("loose_not_read", passing=(), project=project) as failure:
            listing = self._source(project)
        with self._lock:
            began_s, tried_at = (self._prompt if project in self._prompt else self._late).pop(project)
            if self._monotonic() - began_s <= _PATIENCE_S:
                self._slow.discard(project)
            if listing is not None:
                self.memory.put(LooseAnswer(project, tried_at, listing, tried_at))
            else:
                trouble = f"It was not read ({failure.words}); the server's log holds the trace to report."
                self.memory.failed(project, tried_at, trouble)

    def _note_late(self) -> None:
        with self._lock:
            now_s = self._monotonic()
            over = [project for project, (began_s, _) in self._prompt.items() if now_s - began_s >= _PATIENCE_S]
            for project in over[: max(0, _MOST_LATE - len(self._late))]:
                self._is_late(project, *self._prompt.pop(project))
                log.warning("loose_late", project=project, patience_s=_PATIENCE_S)
        self._fill()

    def _is_late(self, project: str, began_s: float, tried_at: datetime) -> None:
        """Notes, under the lock, a project that takes no place from the others: what is in it is unknown."""
        self._slow.add(project)
        self._late[project] = began_s, tried_at
        self.memory.failed(project, tried_at, f"It did not answer within {_PATIENCE_S:.0f} s.")


def _is_within(span: timedelta, most: timedelta) -> bool:
    """Says whether so little time went by; a moment to come is as wrong as one that is long past."""
    return timedelta() <= span < most
