"""A daemon acts, shows its state, and ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta

from sqlalchemy import func, select, update
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud, HandClock
from tests.ledger.ledger_rows import ledger_rows

from costguard.access.rules import Rules
from costguard.daemon.lease_keeper import LEASE
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import DaemonWork, PriceTask, Signs
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.tables import instances, project_leases, replicas
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, PriceSourceError
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.observation import Observation
from costguard.model.price import Price

NOW = at("12:00")
PATIENCE = 30.0  # seconds until a test that hangs fails
LOOK = observation(seen(), operations=(operation("insert", "09:59", "10:00", operation_id="1"),))


class _Cloud(FakeCloud):
    """Says when it is looked at, and holds the answer back until it may go on."""

    def __init__(self, look: Observation = LOOK) -> None:
        super().__init__({look.project: look})
        self.looked = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()

    def observe(self, project: str, operations_since: object) -> Observation:
        self.looked.release()
        assert self.go_on.wait(PATIENCE)
        return self.observations[project]


def _daemon(
    database: Database,
    cloud: FakeCloud,
    holder: str,
    fetch: Callable[[], Sequence[Price]] | None = None,
    alive: Callable[[bool], None] = lambda _is_well: None,
) -> Daemon:
    reconciler = Reconciler(database, cloud, HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules()))
    hour = timedelta(hours=1)
    prices = PriceTask(fetch, lambda *_: None, hour) if fetch else None
    return Daemon(database, reconciler, holder, hour, prices, signs=Signs(alive=alive))


@contextmanager
def _started(daemon: Daemon) -> Iterator[Daemon]:
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def _vms(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(instances)).scalar_one()


def test_a_daemon_acts_as_it_starts_and_when_it_is_woken(sqlite_database: Database) -> None:
    """The first pass does not wait for its interval, and neither does one that was asked for."""
    cloud = _Cloud()
    with _started(_daemon(sqlite_database, cloud, "one")) as daemon:
        assert cloud.looked.acquire(timeout=PATIENCE)
        with daemon._busy:  # the pass is over
            pass
        daemon.wake()
        assert cloud.looked.acquire(timeout=PATIENCE)
        assert daemon.is_acting
    assert daemon.keeper.lease is None
    assert daemon.state.last_pass_at == NOW
    assert _vms(sqlite_database) == 1


def test_two_daemons_on_one_database_record_everything_once(database: Database, database_url: str) -> None:
    """The one that came second writes nothing while the first acts, and takes over when that one ends."""
    with closing(Database.open(database_url)) as other:
        first, second = _daemon(database, _Cloud(), "one"), _daemon(other, _Cloud(), "two")
        first._pass()
        once = ledger_rows(database)
        for _ in range(3):
            second._pass()
            second.keeper.attend()
        assert (first.is_acting, second.is_acting) == (True, False)
        assert ledger_rows(database) == once
        first.stop()
        second._pass()
        assert second.is_acting
        assert ledger_rows(database) == once
        second.stop()


def test_two_daemons_that_race_come_to_what_one_comes_to(database: Database, database_url: str) -> None:
    """Both are started at once, on connections of their own: no double events, no lost lifetimes."""
    with closing(Database.open(database_url)) as other:
        clouds = _Cloud(), _Cloud()
        daemons = _daemon(database, clouds[0], "one"), _daemon(other, clouds[1], "two")
        with _started(daemons[0]), _started(daemons[1]):
            won = _first_looked(clouds)
            clouds[1 - won].go_on.set()
            assert daemons[won]._passed.wait(PATIENCE)  # one that is ended in mid-look writes nothing
        rows = ledger_rows(database)
    assert (len(rows["instances"]), len(rows["lifetimes"]), len(rows["operations"])) == (1, 1, 1)
    assert len(rows["events"]) == len(set(rows["events"])) == 2


def _first_looked(clouds: tuple[_Cloud, _Cloud]) -> int:
    while True:
        for number, cloud in enumerate(clouds):
            if cloud.looked.acquire(timeout=0.05):
                return number


def _expire_projects(database: Database) -> None:
    with database.write() as connection:
        past = leases.database_time(connection) - timedelta(seconds=1)
        for table in (project_leases, replicas):
            connection.execute(update(table).values(expires_at=past))


def test_a_daemon_that_froze_in_a_pass_wakes_and_writes_nothing(database: Database, database_url: str) -> None:
    """The lease expired and was taken while it looked at the cloud; it gives way, and waits for its turn."""
    with closing(Database.open(database_url)) as other:
        cloud = _Cloud()
        frozen, awake = _daemon(database, cloud, "frozen"), _daemon(other, _Cloud(), "awake")
        frozen.keeper.attend()
        cloud.go_on.clear()
        sleeper = threading.Thread(target=frozen._pass)
        sleeper.start()
        assert cloud.looked.acquire(timeout=PATIENCE)
        held = frozen.keeper.lease
        assert held is not None
        leases.release(other, held)
        _expire_projects(other)
        awake._pass()
        once = ledger_rows(other)
        assert len(once["instances"]) == 1
        stopped = seen(fingerprint="later", labels={"owner": "nobody"})
        cloud.observations[PROJECT] = observation(stopped, operations=LOOK.operations)
        cloud.go_on.set()
        sleeper.join(PATIENCE)
        assert not frozen.is_acting
        assert ledger_rows(other) == once
        frozen._pass()
        assert not frozen.is_acting
        awake.stop()


def test_stopping_in_mid_pass_loses_nothing_and_hands_the_lease_on(sqlite_database: Database) -> None:
    """The unwritten rest is left to the next daemon, which need not wait for the lease to expire."""
    cloud = _Cloud()
    cloud.go_on.clear()
    daemon = _daemon(sqlite_database, cloud, "one")
    daemon.start()
    assert cloud.looked.acquire(timeout=PATIENCE)
    ender = threading.Thread(target=daemon.stop)
    ender.start()
    assert daemon._stop.wait(PATIENCE)
    cloud.go_on.set()
    ender.join(PATIENCE)
    assert not ender.is_alive()
    assert _vms(sqlite_database) == 0
    assert leases.acquire(sqlite_database, LEASE, "next", timedelta(seconds=1)) is not None


def test_a_failing_pass_is_shown_and_the_daemon_lives_on(sqlite_url: str) -> None:
    """The database was locked: the state says so, and the next pass clears it."""
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        daemon = _daemon(database, _Cloud(), "one")
        daemon.keeper.attend()
        with closing(Database.open(sqlite_url)) as other, other.write():
            daemon._pass()
            daemon.keeper.attend()
        assert "locked" in daemon.state.last_error
        assert daemon.is_acting
        daemon._pass()
        assert daemon.state.last_error == ""
        assert _vms(database) == 1
        daemon.stop()


def test_a_database_that_takes_nothing_gives_no_sign_of_life(sqlite_url: str) -> None:
    """An agent's report could not be stored either, so nobody is silent meanwhile."""
    signs: list[bool] = []
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        daemon = _daemon(database, _Cloud(), "one", alive=signs.append)
        daemon.keeper.attend()
        with closing(Database.open(sqlite_url)) as other, other.write():
            daemon.keeper.attend()
        daemon.keeper.attend()
        assert signs == [True, False, True]
        daemon.stop()


def test_prices_that_cannot_be_refreshed_are_shown_and_passes_go_on(sqlite_database: Database) -> None:
    """The last good prices stay in force, and the error goes when the catalogue answers."""
    answers = iter([PriceSourceError("The catalogue did not answer."), None])

    def fetch() -> Sequence[Price]:
        if (error := next(answers)) is not None:
            raise error
        return ()

    daemon = _daemon(sqlite_database, _Cloud(), "one", fetch)
    daemon._refresh()
    assert daemon.state.prices_error == "The catalogue did not answer."
    daemon._pass()
    daemon._refresh()
    assert (daemon.state.prices_error, daemon.state.last_error) == ("", "")
    daemon.stop()


def test_a_silent_catalogue_holds_up_neither_passes_nor_the_end(sqlite_database: Database) -> None:
    """While it is waited for, passes go on, and a shutdown leaves it alone."""
    requested, answer, cloud = threading.Event(), threading.Event(), _Cloud()

    def fetch() -> Sequence[Price]:
        requested.set()
        answer.wait()
        return ()

    with _started(_daemon(sqlite_database, cloud, "one", fetch)) as daemon:
        assert requested.wait(PATIENCE)
        for _ in range(2):
            assert cloud.looked.acquire(timeout=PATIENCE)
            daemon._pass()
    assert daemon.state.last_pass_at is not None
    answer.set()


def test_a_daemon_ends_although_the_database_is_out_of_reach(sqlite_url: str) -> None:
    """The lease expires by itself."""
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        daemon = _daemon(database, _Cloud(), "one")
        daemon.keeper.attend()
        with closing(Database.open(sqlite_url)) as other, other.write():
            daemon.stop()
        assert daemon.keeper.lease is None


def test_budgets_are_looked_at_after_each_pass_and_cannot_spoil_it(sqlite_database: Database) -> None:
    """The failure of such a look is logged, and neither the pass nor the daemon suffers."""
    fences = []
    looked = threading.Semaphore(0)

    def look(fence: Lease) -> None:
        fences.append(fence)
        looked.release()
        raise PriceSourceError("no prices")

    clock = HandClock(NOW)
    reconciler = Reconciler(sqlite_database, _Cloud(), clock, lambda: [PROJECT], Rules({}), Belonging((), OwnerRules()))
    hour = timedelta(hours=1)
    daemon = Daemon(sqlite_database, reconciler, "one", hour, work=DaemonWork(after_pass={"budgets": look}))
    with _started(daemon):
        assert looked.acquire(timeout=PATIENCE)
        daemon._pass()
        assert looked.acquire(timeout=PATIENCE)
    assert daemon.state.last_error == ""
    assert daemon.state.last_pass_at == NOW
    assert {fence.name for fence in fences} == {LEASE}


def test_what_people_ask_for_wakes_a_pass_and_no_more(sqlite_database: Database) -> None:
    """A press asks for a pass; prices are not read for it."""
    fetched = threading.Semaphore(0)
    cloud = _Cloud()

    def fetch() -> Sequence[Price]:
        fetched.release()
        return ()

    with _started(_daemon(sqlite_database, cloud, "one", fetch)) as daemon:
        assert cloud.looked.acquire(timeout=PATIENCE)
        assert fetched.acquire(timeout=PATIENCE)
        with daemon._busy:  # the pass is over
            pass
        daemon.ask_for_pass()
        assert cloud.looked.acquire(timeout=PATIENCE)
    assert not fetched.acquire(blocking=False)


def test_news_of_a_vm_bring_a_pass_soon_but_not_one_after_the_other(sqlite_database: Database) -> None:
    """A VM that comes up is seen before it can be gone; a storm of them does not keep the guard listing."""
    cloud = _Cloud()
    with _started(_daemon(sqlite_database, cloud, "one", tuple)) as daemon:
        assert cloud.looked.acquire(timeout=PATIENCE)
        with daemon._busy:  # the pass is over
            pass
        for _ in range(3):
            daemon.ask_for_look()
        waiting = daemon._scheduler.get_job("pass").next_run_time
        assert timedelta() < waiting - daemon._looked_at <= timedelta(seconds=10)
        assert not cloud.looked.acquire(blocking=False)


def test_messages_are_sent_while_a_pass_is_held_up(sqlite_database: Database) -> None:
    """A pass that waits for Google keeps no message waiting, nor a slow Slack a pass."""
    cloud = _Cloud()
    cloud.go_on.clear()
    sent = threading.Semaphore(0)

    def send(fence: Lease, stop: threading.Event) -> timedelta | None:
        assert fence.name == LEASE
        assert not stop.is_set()
        sent.release()
        return timedelta()

    reconciler = Reconciler(
        sqlite_database, cloud, HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )
    daemon = Daemon(sqlite_database, reconciler, "one", timedelta(hours=1), work=DaemonWork(send=send))
    with _started(daemon):
        assert cloud.looked.acquire(timeout=PATIENCE)
        assert sent.acquire(timeout=PATIENCE)
        cloud.go_on.set()


def test_an_empty_outbox_is_left_alone_for_a_while_and_after_a_pass_looked_into_again(
    sqlite_database: Database,
) -> None:
    """Nothing to send costs next to nothing, and what a pass intends does not wait for that while to end."""
    looks: list[Lease] = []

    def send(fence: Lease, stop: threading.Event) -> timedelta | None:
        looks.append(fence)
        return None

    reconciler = Reconciler(
        sqlite_database, _Cloud(), HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )
    daemon = Daemon(sqlite_database, reconciler, "one", timedelta(hours=1), work=DaemonWork(send=send))
    for _ in range(6):
        daemon._send()
    assert len(looks) == 1
    daemon._pass()
    daemon._send()
    assert len(looks) == 2
    daemon.stop()


def test_who_was_met_is_decided_about_at_once(sqlite_database: Database) -> None:
    """People are looked up where messages are sent, side_tasks the passes; someone new brings on a pass."""
    cloud, met = _Cloud(), threading.Event()
    reconciler = Reconciler(
        sqlite_database, cloud, HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )

    def look_up(fence: Lease, stop: threading.Event) -> bool:
        is_first = not met.is_set()
        met.set()
        return is_first

    daemon = Daemon(
        sqlite_database,
        reconciler,
        "one",
        timedelta(hours=1),
        work=DaemonWork(send=lambda _fence, _stop: timedelta(), look_up=look_up),
    )
    cloud.go_on.clear()
    with _started(daemon):
        assert cloud.looked.acquire(timeout=PATIENCE)
        assert met.wait(PATIENCE)
        cloud.go_on.set()
        assert cloud.looked.acquire(timeout=PATIENCE)


def test_a_daemon_that_lost_its_lease_stops_sending(sqlite_database: Database) -> None:
    """Another one sends now; what this one had begun is settled there."""

    def send(fence: Lease, stop: threading.Event) -> timedelta | None:
        raise LeaseLost("taken over")

    reconciler = Reconciler(
        sqlite_database, _Cloud(), HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )
    daemon = Daemon(sqlite_database, reconciler, "one", timedelta(hours=1), work=DaemonWork(send=send))
    daemon._send()
    assert not daemon.is_acting
    daemon.stop()
