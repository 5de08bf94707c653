"""A thread that holds this replica's share of the projects: claims, renews and hands over their leases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.daemon import shares
from costguard.daemon.lease_keeper import ASK_EVERY, LEASE_TTL
from costguard.db import lease as leases
from costguard.db import project_leases as stored
from costguard.db.lease import Hold, Lease, database_time
from costguard.db.limits import within
from costguard.db.project_leases import ShardHolder
from costguard.db.transaction import Database
from costguard.errors import CostguardError

log = structlog.get_logger(__name__)

# Within these a project whose replica was killed is looked at again: what is left of its lease, up to ASK_EVERY, and a
# look. They are the times of the daemon's lease.
TAKEOVER = timedelta(seconds=15)
_ANSWER = timedelta(seconds=4)
_LAST_WORDS = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class _View:
    """The state of all replicas in the database, at one moment of its clock."""

    now: datetime
    rows: Mapping[str, ShardHolder]  # by project
    replicas: frozenset[str]


class ShardKeeper:
    """Keeps the leases of this replica's share of the watched projects. `claimed` is called when there are new ones.

    With `fair` False it takes every project that is free, and hands none over: for a single pass. `now` and `elapsed_s`
    are the clocks of leases and of this process.
    """

    def __init__(
        self,
        database: Database,
        holder: str,
        watched: Callable[[], Sequence[str]],
        claimed: Callable[[], None] = lambda: None,
        *,
        fair: bool = True,
        now: Callable[[Connection], datetime] = database_time,
        elapsed_s: Callable[[], float] = leases.elapsed_s,
    ) -> None:
        self._database = database
        self._holder = holder
        self._watched = watched
        self._claimed = claimed
        self._fair = fair
        self._now = now
        self._hold = Hold(0.0, LEASE_TTL, elapsed_s)  # of all its projects: they are renewed together
        self._held: Mapping[str, Lease] = {}
        self._was_answered = False
        self._attending = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="shards", daemon=True)
        self._thread.start()

    def end(self, *, release: bool) -> None:
        """Renews them no more; released, others can claim them at once, else when they expire."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LAST_WORDS.total_seconds())
        held, self._held = self._held, {}
        if not release:
            return
        try:
            with within(_LAST_WORDS), self._database.write() as connection:
                stored.release(connection, self._holder, list(held.values()), self._now(connection))
                stored.leave(connection, self._holder)
        except CostguardError as error:  # they expire by themselves
            log.error("projects_not_released", error=str(error))

    def held(self, companion: Lease | None = None) -> Mapping[str, Lease]:
        """Returns the leases by project, ours as far as we know: each is checked again when something is written.

        Before the thread is started, and until the database first answered, they are claimed here. Raises StoreError.
        Writes under them renew `companion`, the daemon's lease, where renewals may not come in.
        """
        if self._thread is None or not self._was_answered:
            self._once()
        if companion is None:
            return self._held
        return {project: replace(lease, companion=companion) for project, lease in self._held.items()}

    def attend(self) -> None:
        """Renews the leases where that is due, and claims or hands over what is to change, once."""
        try:
            new = self._once()
        except CostguardError as failed:
            log.error("projects_not_kept", error=str(failed))
            return
        if new:
            self._claimed()

    def claim_unwatched(self, project: str) -> Lease | None:
        """Claims a project that is not watched any more, to close its account; None while another replica holds it."""
        with self._database.write() as connection:
            now = self._now(connection)
            claimed = stored.claim(connection, self._holder, [project], 1, now + LEASE_TTL, now)
        return next(iter(claimed), None)

    def release(self, lease: Lease) -> None:
        """Hands over a project that was claimed to close its account."""
        with self._database.write() as connection:
            stored.release(connection, self._holder, [lease], self._now(connection))

    def _once(self) -> int:
        """Attends, and returns how many projects are new."""
        with self._attending:
            if self._stop.is_set():
                return 0
            before = self._held
            self._attend()
            self._was_answered = True
            new = sum(before.get(project) != lease for project, lease in self._held.items())
            if new:
                log.info("projects_claimed", holder=self._holder, new=new, held=len(self._held))
            return new

    def _attend(self) -> None:
        watched = list(self._watched())
        with within(_ANSWER):
            view = self._view()
            self._held = self._still_ours(view)
            if self._hold.is_to_be_renewed:
                self._renew()
        most, free, surplus = self._changes(view, watched)
        if not most and not surplus and self._holder in view.replicas:
            return
        # Not bounded as tightly: a process that froze in mid-transaction keeps its turn for some seconds.
        with self._database.write() as connection:
            now = self._now(connection)
            stored.join(connection, self._holder, now + LEASE_TTL)
            stored.release(connection, self._holder, surplus, now)
            claimed = stored.claim(connection, self._holder, free, most, now + LEASE_TTL, now) if most else []
        handed_over = {lease.name for lease in surplus}
        kept = {project: lease for project, lease in self._held.items() if project not in handed_over}
        self._held = kept | {lease.name: replace(lease, hold=self._hold) for lease in claimed}

    def _view(self) -> _View:
        with self._database.read() as connection:
            now = self._now(connection)
            rows = {row.project: row for row in stored.read(connection, now, LEASE_TTL)}
            return _View(now, rows, frozenset(stored.living_replicas(connection, now, LEASE_TTL)))

    def _still_ours(self, view: _View) -> dict[str, Lease]:
        """Returns the leases that nobody took over; one that merely expired is still ours."""
        kept = {
            project: lease
            for project, lease in self._held.items()
            if (row := view.rows.get(project)) is not None and (row.holder, row.epoch) == (self._holder, lease.epoch)
        }
        if lost := sorted(self._held.keys() - kept.keys()):
            log.warning("projects_lost", holder=self._holder, lost=len(lost), first=lost[0])
        return kept

    def _renew(self) -> None:
        asked_s = self._hold.elapsed_s()
        with self._database.write_out_of_turn() as connection:
            leases.renew_projects(connection, self._holder, self._now(connection) + LEASE_TTL)
        self._hold.until_s = asked_s + LEASE_TTL.total_seconds()

    def _changes(self, view: _View, watched: Sequence[str]) -> tuple[int, list[str], list[Lease]]:
        """Returns how many to claim, of which projects, and the leases to hand over."""
        named = set(watched)
        ours = sorted(self._held.keys() & named)
        unwatched = [lease for project, lease in self._held.items() if project not in named]
        others = {
            row.project: row.holder
            for row in view.rows.values()
            if row.project in named and row.is_held and row.holder != self._holder
        }
        free = [project for project in watched if project not in self._held and project not in others]
        if not self._fair:
            return len(free), free, unwatched
        counts = dict.fromkeys((*view.replicas, self._holder), 0) | Counter(others.values())
        change = shares.change(self._holder, counts | {self._holder: len(ours)}, len(watched))
        handed_over = ours[len(ours) - change.hand_over :] if change.hand_over else []
        return min(change.claim, len(free)), free, [*unwatched, *(self._held[project] for project in handed_over)]

    def _run(self) -> None:
        # Its first turn is a little later: the pass of a daemon that acts claims what is free before it looks.
        while not self._stop.wait(ASK_EVERY.total_seconds()):
            try:
                self.attend()
            except Exception:  # the thread must live on, whatever it was
                log.exception("projects_not_kept")


@contextmanager
def all_projects(database: Database, holder: str, watched: Callable[[], Sequence[str]]) -> Iterator[ShardKeeper]:
    """Holds all projects that no other replica holds during the block, for a single pass, and releases them after."""
    keeper = ShardKeeper(database, holder, watched, fair=False)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.end(release=True)
