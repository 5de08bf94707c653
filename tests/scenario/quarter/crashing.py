"""A process that may end, or stand still for a while, between any two of its steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CloudUnavailable
from costguard.gce.client import ComputeCloud
from costguard.model.message import Content, Posted
from costguard.model.observation import Observation, Sighting
from costguard.model.person import Person
from costguard.slack.client import SlackNotifier


class Killed(BaseException):
    """The process ended here."""


class Fuse:
    """Burns through after a random number of steps. `freeze` is what happens while the process stands still."""

    def __init__(self, chance: random.Random, mean: float, freeze: Callable[[], None] | None = None) -> None:
        self._chance = chance
        self._mean = mean
        self._freeze = freeze
        self.burnt: Counter[str] = Counter()
        self.kills = 0
        self._arm()

    def off(self) -> None:
        """From now on nothing ends."""
        self._mean = 0

    def step(self, where: str, *, can_freeze: bool = False) -> None:
        self._left -= 1
        if self._left > 0 or self._mean == 0:
            return
        self._arm()
        if self._freeze is not None and can_freeze and self._chance.random() < 0.3:
            self.burnt[f"frozen {where}"] += 1
            self._freeze()
            return
        self.burnt[f"killed {where}"] += 1
        self.kills += 1
        raise Killed

    def _arm(self) -> None:
        # Now and then a process hardly gets anywhere.
        mean = self._mean / 10 if self._chance.random() < 0.2 else self._mean
        self._left = 1 + int(self._chance.expovariate(1) * mean)


class FragileDatabase(Database):
    """May end before, within and after each transaction; frozen within one it would hold the turn of all others."""

    fuse: Fuse

    @classmethod
    def around(cls, url: str, fuse: Fuse) -> FragileDatabase:
        database = cls.open(url)
        assert isinstance(database, cls)
        database.fuse = fuse
        return database

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        self.fuse.step("before a write", can_freeze=True)
        with super().write(fence) as connection:
            yield connection
            self.fuse.step("before a commit")
        self.fuse.step("after a commit", can_freeze=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with super().read() as connection:
            yield connection
        self.fuse.step("after a read", can_freeze=True)


class FragileNotifier:
    """Ends before and after each call; stands still only after one, for what is in flight nobody can recall."""

    def __init__(self, slack: SlackNotifier, fuse: Fuse) -> None:
        self._slack = slack
        self._fuse = fuse

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        return self._call("post", channel, content, key, thread_ts)  # type: ignore[no-any-return]

    def update(self, at: Posted, content: Content, key: str) -> None:
        self._call("update", at, content, key)

    def post_ephemeral(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        self._call("ephemeral", channel, user_id, content, thread_ts)

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        return self._call("find", channel, key, since, thread_ts)  # type: ignore[no-any-return]

    def person_of(self, address: str) -> Person | None:
        return self._call("person_of", address)  # type: ignore[no-any-return]

    def person_by_id(self, user_id: str) -> Person | None:
        return self._call("person_by_id", user_id)  # type: ignore[no-any-return]

    def open_direct(self, user_id: str) -> str:
        return self._call("open_direct", user_id)  # type: ignore[no-any-return]

    def _call(self, method: str, *arguments: Any) -> Any:
        self._fuse.step(f"before {method}")
        answer = getattr(self._slack, method)(*arguments)
        self._fuse.step(f"after {method}", can_freeze=True)
        return answer


class FragileCloud:
    """The cloud as engine's Cloud and Actuator. `loses` says whether the answer to a stop is lost."""

    def __init__(self, cloud: ComputeCloud, fuse: Fuse, loses: Callable[[], bool]) -> None:
        self._cloud = cloud
        self._fuse = fuse
        self._loses = loses
        self.usage = cloud.usage
        self.presence = cloud.presence
        self.looks: list[Observation] = []

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        observation = self._cloud.observe(project, operations_since)
        self.looks.append(observation)
        return observation

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        self._fuse.step("before look")
        sighting = self._cloud.look(project, zone, name)
        self._fuse.step("after look", can_freeze=True)
        return sighting

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._begin("stop", project, zone, instance, request_id)

    def _begin(self, verb: str, *arguments: str) -> str:
        self._fuse.step(f"before {verb}")
        operation: str = getattr(self._cloud, verb)(*arguments)
        self._fuse.step(f"after {verb}", can_freeze=True)
        if self._loses():
            raise CloudUnavailable(f"The answer to {verb} was lost.")
        return operation
