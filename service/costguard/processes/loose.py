"""Asks Google for loose things next to the daemon, and hands the answers to the processes that serve."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Protocol

from costguard.db.transaction import Database
from costguard.isolation import Isolated
from costguard.ledger.discovery.watch import WatchList
from costguard.model.observation import LooseListing
from costguard.model.ports import Clock
from costguard.processes.wire import AskLoose, Loose
from costguard.settings import Settings
from costguard.spend.loose.asking import EVERY, LooseAsking
from costguard.spend.loose.memory import LooseAnswer
from costguard.spend.loose.report import LooseReport, UnknownWhy, prices_of
from costguard.spend.loose.things import LooseThings

_TURN_S = 10.0  # how often it is asked whether a project is due
_FIRST_TURN_S = 1.0  # how often it is asked whether there was a pass
_AT_ONCE = 1_000  # things in a message, some 500 kB
_ONE_PASS = timedelta(minutes=1)  # how long a pass by hand waits for reservations


class LooseCloud(Protocol):
    """The part of Google's client that lists loose things."""

    def loose(self, project: str) -> LooseListing: ...
    def reservations(self, project: str) -> LooseListing: ...


class LooseTurns:
    """Asks each project by turns while it is started; without turns, reservations alone, and where they are wanted."""

    def __init__(self, settings: Settings, database: Database, cloud: LooseCloud, clock: Clock, speed: float) -> None:
        self._database = database
        watched = WatchList(database, settings.watch.scope)
        self._asking = LooseAsking(cloud.loose, watched, clock.now, every=EVERY * speed)
        self._alone = LooseAsking(cloud.reservations, watched, clock.now)
        self._of_turns, self._of_one_pass = (
            LooseThings(asking.memory, watched, clock.now, settings.owners.rules, asking.ask)
            for asking in (self._asking, self._alone)
        )
        self._stop = threading.Event()
        self._is_started = False

    def start(self, has_passed: Callable[[], bool]) -> None:
        """Takes the turns in a thread, from the first pass on: until then the pass has Google to itself."""
        self._is_started = True

        def run() -> None:
            while not self._stop.wait(_TURN_S if has_passed() else _FIRST_TURN_S):
                if has_passed():
                    with Isolated("loose_turn_failed", passing=()):  # the next one asks the same
                        self._asking.turn()

        threading.Thread(target=run, name="loose-turns", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def ask(self, wanted: AskLoose) -> None:
        """Has Google asked now."""
        with Isolated("loose_not_asked", passing=()):
            self._asking.ask(wanted.projects)

    def since(self, number: int) -> tuple[int, Iterable[Loose]]:
        """Returns messages with the answers that came after this change, and the number of the last."""
        last, answers = self._asking.memory.since(number)
        return last, messages_of(answers)

    def unused(self) -> LooseReport | None:
        """Reports the reservations of all projects; None while some were not asked. Raises StoreError."""
        book = prices_of(self._database)
        if self._is_started:
            report = self._of_turns.unused(book)
            return None if report is None or report.unknown_for(UnknownWhy.NOT_ASKED) else report
        self._alone.ask_and_wait(_ONE_PASS)
        return self._of_one_pass.report(book)


def messages_of(answers: Iterable[LooseAnswer]) -> Iterator[Loose]:
    """Puts some answers together in a message, so that none is large without need."""
    some, count = list[LooseAnswer](), 0
    for answer in answers:
        some.append(answer)
        count += 1 + (len(answer.listing.things) if answer.listing is not None else 0)
        if count >= _AT_ONCE:
            yield Loose(answers=tuple(some))
            some, count = [], 0
    if some:
        yield Loose(answers=tuple(some))
