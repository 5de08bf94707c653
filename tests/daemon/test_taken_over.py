"""Two replicas on one database, one of them killed again and again: every project stays watched, and all is recorded
once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from sqlalchemy import select
from tests.builders import at, observation, operation, seen
from tests.fakes import FakeCloud, HandClock
from tests.ledger.ledger_rows import ledger_rows

from costguard.access.rules import Rules
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.shard_keeper import TAKEOVER, ShardKeeper
from costguard.db import lease as leases
from costguard.db.lease import Lease
from costguard.db.tables import charges, projects
from costguard.db.transaction import Database
from costguard.errors import LeaseLost
from costguard.ledger import prices
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.money import Money
from costguard.model.observation import Observation
from costguard.model.price import Price, PriceKey, Unit

PROJECTS = [f"project-{number:02}" for number in range(12)]
EVERY = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
MIDNIGHT = at("2026-11-03T00:00:00")
_PRICES = [
    Price(PriceKey(resource, "us-central1", ProvisioningModel.STANDARD), unit, Money.of(1).nanos, at("00:00"), "test")
    for resource, unit in (
        ("a2:core", Unit.HOUR),
        ("a2:ram", Unit.GIB_HOUR),
        ("gpu:nvidia-tesla-a100", Unit.HOUR),
        ("disk:pd-balanced", Unit.GIB_MONTH),
    )
]


class _Cloud(FakeCloud):
    """A VM in each project, which is stopped some minutes past midnight. It counts how often each was looked at."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self._clock = clock
        self.looks: list[tuple[str, datetime]] = []

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        now = self._clock.now()
        self.looks.append((project, now))
        number = PROJECTS.index(project)
        running = seen(key=InstanceKey(project, str(1000 + number)), name=f"vm-{number}")
        begun = operation(
            "insert", "09:59", "10:00", project=project, target_id=running.key.gce_id, target_name=running.name,
            operation_id=str(number),
        )  # fmt: skip
        made = observation(running, operations=(begun,), project=project)
        return replace(made, read_at=now, operations_through_at=now)


class _Replica:
    """A daemon's leases and passes, second by second."""

    def __init__(self, url: str, name: str, cloud: _Cloud, clock: HandClock) -> None:
        self.name = name
        self.database = Database.open(url)
        self._clock = clock
        self._reconciler = Reconciler(
            self.database, cloud, clock, lambda: PROJECTS, Rules({}), Belonging((), OwnerRules()), LookPace(1)
        )
        self.shards = ShardKeeper(
            self.database, name, self._reconciler.watched, self._is_asked,
            now=lambda _connection: clock.now(), elapsed_s=lambda: clock.now().timestamp(),
        )  # fmt: skip
        self._lease: Lease | None = None
        self._next = clock.now() + EVERY

    def _is_asked(self) -> None:
        self._next = self._clock.now()

    def tick(self) -> None:
        now = self._clock.now()
        if self._lease is None:
            self._lease = leases.acquire(self.database, LEASE, self.name, LEASE_TTL, now)
            self._next = now if self._lease is not None else self._next
        else:
            self._lease = leases.renew(self.database, self._lease, LEASE_TTL, now)
        self.shards.attend()
        if now < self._next:
            return
        self._next = now + EVERY
        if self._lease is None:
            self._reconciler.look(self.shards)
        else:
            self._reconciler.run(self._lease, shards=self.shards)

    def wake_late(self) -> None:
        """It was only frozen, and goes on with its pass under the leases that it had."""
        with pytest.raises(LeaseLost):
            self._reconciler.run(self._lease, shards=_Frozen(self.shards))


class _Frozen(ShardKeeper):
    """The keeper of a process that stood still: it believes what it knew."""

    def __init__(self, before: ShardKeeper) -> None:
        self._before = before

    def held(self, companion: Lease | None = None) -> dict[str, Lease]:
        return dict(self._before._held)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(MIDNIGHT - timedelta(minutes=2, seconds=30))


@pytest.fixture
def priced(database: Database) -> Database:
    with database.write() as connection:
        prices.add(connection, _PRICES, at("00:00"))
    return database


def _unwatched(cloud: _Cloud, dead: list[str], killed_at: datetime) -> timedelta:
    """Returns the longest time from the kill to the next look at a project that the killed replica held."""
    nexts = [min(moment for project, moment in cloud.looks if project == one and moment >= killed_at) for one in dead]
    return max((moment - killed_at for moment in nexts), default=timedelta())


def test_killed_replicas_projects_are_looked_at_within_fifteen_seconds(
    priced: Database, database_url: str, clock: HandClock
) -> None:
    """A kill comes every minute for six minutes across midnight, a moment later each time, to the one that acts and
    to the other in turn; half of the times the killed one wakes too late.
    """
    cloud = _Cloud(clock)
    pair = [_Replica(database_url, name, cloud, clock) for name in ("a", "b")]
    started, kills = list(pair), list[tuple[list[str], datetime, _Replica]]()
    for second in range(360):
        clock.advance(SECOND)
        if second % 61 == 45:
            victim = pair[len(kills) % 2]
            kills.append((sorted(victim.shards._held), clock.now(), victim))
            pair.remove(victim)
        if second % 61 == 10 and len(pair) == 1:
            pair.append(_Replica(database_url, f"replica-{second}", cloud, clock))
            started.append(pair[-1])
            if len(kills) % 2:
                before = _without_looks(priced)
                kills[-1][2].wake_late()
                assert _without_looks(priced) == before, "a replica that was replaced wrote something"
        for replica in list(pair):
            replica.tick()
    longest = max(_unwatched(cloud, dead, killed_at) for dead, killed_at, _ in kills)
    assert len(kills) == 6
    assert all(dead for dead, _, _ in kills), "each was killed while it watched something"
    assert timedelta() < longest <= TAKEOVER
    for project in PROJECTS:
        moments = sorted(moment for name, moment in cloud.looks if name == project)
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert max(gaps) <= EVERY + TAKEOVER
    with priced.read() as connection:
        charged = connection.execute(select(charges.c.span_id, charges.c.day, charges.c.resource)).all()
    assert len(charged) == len(set(charged)) > len(PROJECTS), "nothing was charged twice"
    rows = ledger_rows(priced)
    assert [len(rows[name]) for name in ("instances", "lifetimes", "operations")] == [len(PROJECTS)] * 3
    assert len(rows["events"]) == len(set(rows["events"]))
    for replica in started:
        replica.database.close()


def _without_looks(database: Database) -> dict[str, list[str]]:
    with database.read() as connection:
        looks = [str(row) for row in connection.execute(select(projects).order_by(projects.c.project))]
    return {**ledger_rows(database), "looks": looks}


def test_three_replicas_share_the_looks(priced: Database, database_url: str, clock: HandClock) -> None:
    """Each looks at its third, and together they look at each project as often as one replica would."""
    clouds = [_Cloud(clock) for _ in range(3)]
    replicas = [_Replica(database_url, str(number), cloud, clock) for number, cloud in enumerate(clouds)]
    for _ in range(5):
        clock.advance(SECOND)
        for replica in replicas:
            replica.tick()
    for cloud in clouds:
        cloud.looks.clear()
    for _ in range(60):
        clock.advance(SECOND)
        for replica in replicas:
            replica.tick()
    assert [len({project for project, _ in cloud.looks}) for cloud in clouds] == [4, 4, 4]
    assert [len(cloud.looks) for cloud in clouds] == [8, 8, 8]
    for replica in replicas:
        replica.database.close()
