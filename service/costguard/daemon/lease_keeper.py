"""A thread that holds the lease, or waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.limits import within
from costguard.db.transaction import Database
from costguard.errors import CostguardError, DatabaseSilent, LeaseLost

log = structlog.get_logger(__name__)

LEASE = "daemon"
# Failover takes what is left of the dead daemon's lease, up to ASK_EVERY, and a first pass, and 15 s are allowed for
# all. Three renewals fit into a life, so two may fail; one that comes late loses nothing while no other daemon asked.
LEASE_TTL = timedelta(seconds=9)
RENEW_EVERY = timedelta(seconds=3)
ASK_EVERY = timedelta(seconds=1)  # a read of one row, by those who wait for the lease
# A question about the lease is answered at once, or over a new connection sooner than the lease runs out.
_ANSWER = timedelta(seconds=4)
_LAST_WORDS = timedelta(seconds=3)
# Twice the lease's life: by then another daemon acts, or could, and two renewals over new connections were in vain.
LIMIT = 2 * LEASE_TTL
TICK = timedelta(seconds=1)
# A process whose watchdog could not look for this long was itself stopped: a laptop slept, a VM was moved.
_STOOD_STILL = timedelta(seconds=5)


class LeaseKeeper:
    """Renews the lease while it is ours, and asks for it while it is not.

    `acquired` is called each time it becomes ours, `answered` after each question that the database answered, be it
    with an error, and `troubled` with what went wrong, "" once nothing does.
    """

    def __init__(
        self,
        database: Database,
        holder: str,
        acquired: Callable[[], None] = lambda: None,
        answered: Callable[[], None] = lambda: None,
        troubled: Callable[[str], None] = lambda _error: None,
        lease: Lease | None = None,
    ) -> None:
        self._database = database
        self._holder = holder
        self._acquired = acquired
        self._answered = answered
        self._troubled = troubled
        self._lease = lease
        self._is_in_trouble = False
        # Never asked for twice at once: the later answer would fence off the earlier.
        self._asking = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lease(self) -> Lease | None:
        """Ours as far as we know. What is written under it is checked again when it is written."""
        return self._lease

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def end(self, *, release: bool) -> None:
        """Renew it no more; released, it is free at once, else when it expires."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LAST_WORDS.total_seconds())
        lease, self._lease = self._lease, None
        if lease is None or not release:
            return
        try:
            with within(_LAST_WORDS):
                leases.release(self._database, lease)
        except CostguardError as error:  # it expires by itself
            log.error("lease_not_released", error=str(error))

    def held(self) -> Lease | None:
        """The lease; None while another daemon acts, or when the database does not answer.

        Before the thread is started, it is asked for here.
        """
        if self._lease is None and self._thread is None:
            self.attend()
        return self._lease

    def step_aside(self, lost: Lease | None) -> None:
        """A write under this lease found that another daemon holds it."""
        with self._asking:
            if lost is not None and self._lease is not None and self._lease.epoch == lost.epoch:
                log.warning("lease_lost", holder=self._holder, why="A write found that another daemon holds it.")
                self._lease = None

    def attend(self) -> None:
        """Renew it, or ask for it, once."""
        if self._stop.is_set():
            return
        with self._asking:
            before = self._lease
            try:
                self._lease = self._renewed(before) if before is not None else self._asked_for()
                error: CostguardError | None = None
            except LeaseLost as lost:
                log.warning("lease_lost", holder=self._holder, why=lost.message)
                self._lease, error = None, None
            except CostguardError as failed:
                log.error("lease_not_kept", error=str(failed))
                error = failed
            is_new = before is None and self._lease is not None
        self._tell("" if error is None else str(error))
        if not isinstance(error, DatabaseSilent):
            self._answered()
        if is_new:
            log.info("lease_acquired", holder=self._holder)
            self._acquired()

    def _renewed(self, lease: Lease) -> Lease:
        with within(_ANSWER):
            return leases.renew(self._database, lease, LEASE_TTL)

    def _asked_for(self) -> Lease | None:
        with within(_ANSWER):
            if not leases.is_worth_asking_for(self._database, LEASE, self._holder, LEASE_TTL):
                return None
        # Not bounded as tightly: a holder that froze in mid-transaction keeps its turn for some seconds.
        return leases.acquire(self._database, LEASE, self._holder, LEASE_TTL)

    def _tell(self, error: str) -> None:
        if error or self._is_in_trouble:
            self._is_in_trouble = bool(error)
            self._troubled(error)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.attend()
            except Exception:  # the thread must live on, whatever it was; the watchdog sees to the rest
                log.exception("lease_not_kept")
            is_well = self._lease is not None and not self._is_in_trouble
            self._stop.wait((RENEW_EVERY if is_well else ASK_EVERY).total_seconds())


@contextmanager
def kept(database: Database, lease: Lease) -> Iterator[None]:
    """Renews the lease during the block, however long that takes, and releases it afterwards."""
    keeper = LeaseKeeper(database, lease.holder, lease=lease)
    keeper.start()
    try:
        yield
    finally:
        keeper.end(release=True)


class Watchdog:
    """Calls `bark` once the database has not answered the keeper of the lease for `limit`.

    An answer is a lease that was renewed, one that another daemon holds, or an error that the database or the network
    gave in time: a database that is down, locked or full is no hang, and its readers keep their pages. Time in which
    this process stood still does not count: it begins again when the process goes on.
    """

    def __init__(
        self,
        bark: Callable[[timedelta], None],
        limit: timedelta = LIMIT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bark = bark
        self._limit_s = limit.total_seconds()
        self._monotonic = monotonic
        self._was_answered = False
        self._silent_s = 0.0
        self._looked_s = monotonic()
        self._stop = threading.Event()

    def answered(self) -> None:
        self._was_answered = True

    def start(self) -> None:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end(self) -> None:
        self._stop.set()

    def look(self) -> bool:
        """Count the time since the last look; whether that was too much."""
        now = self._monotonic()
        passed, self._looked_s = now - self._looked_s, now
        if self._was_answered or passed > _STOOD_STILL.total_seconds():
            self._was_answered, self._silent_s = False, 0.0
        else:
            self._silent_s += passed
        return self._silent_s >= self._limit_s

    def _run(self) -> None:
        self._looked_s = self._monotonic()
        while not self._stop.wait(TICK.total_seconds()):
            if self.look():
                self._bark(timedelta(seconds=self._silent_s))
                return
