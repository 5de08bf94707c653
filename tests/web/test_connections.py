"""Connections make room for others, and wait for a time: without sockets, on a moved clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from costguard.web.connections import (
    EVERY_S,
    OVER,
    ConnectionLimits,
    ConnectionPhase,
    Connections,
    SparseLog,
    most_connections,
)


@dataclass(eq=False)
class Waiting:
    address: str = "192.0.2.1"
    phase: ConnectionPhase = ConnectionPhase.HEAD
    since: float = 0.0
    is_over: bool = False
    ended: list[str] = field(default_factory=list)

    def expire(self, phase: ConnectionPhase) -> None:
        self.ended.append(phase.value)

    def abort(self) -> None:
        self.ended.append("aborted")


class ServerConnections:
    """Connections of a server with room for eight; addresses of 198.51.100.0/24 are a proxy's."""

    def __init__(self, most: int = 8) -> None:
        self.now = 0.0
        self.sparse = SparseLog(lambda: self.now)
        limits = ConnectionLimits(head=10, body=30, idle=15, write=20, over=2, most=most)
        self.all = Connections(limits, lambda address: address.startswith("198.51.100."), self.sparse, lambda: self.now)

    def open(self, **given: object) -> Waiting | None:
        """Opens a connection; None where it is refused."""
        made = Waiting(since=self.now, **given)  # type: ignore[arg-type]
        if not self.all.make_room(made.address):
            return None
        made.is_over = self.all.opened(made)
        return made


@pytest.mark.parametrize(
    ("phase", "longest"),
    [(ConnectionPhase.HEAD, 10), (ConnectionPhase.BODY, 30), (ConnectionPhase.IDLE, 15), (ConnectionPhase.UNREAD, 20)],
)
def test_each_phase_has_its_limit(phase: ConnectionPhase, longest: int) -> None:
    """The limit holds to the second, and then it ends as what it waited for."""
    ground = ServerConnections()
    made = ground.open(phase=phase)
    assert made is not None
    ground.now = longest
    ground.all.sweep()
    assert made.ended == []
    ground.now += 1
    ground.all.sweep()
    assert made.ended == [phase.value]


def test_the_applications_time_is_not_the_clients() -> None:
    """A whole request whose answer takes an hour is never closed, nor makes room."""
    ground = ServerConnections(most=1)
    made = ground.open(phase=ConnectionPhase.BUSY)
    assert made is not None
    ground.now = 3600
    ground.all.sweep()
    assert ground.open(address="192.0.2.2") is not None
    assert made.ended == []


def test_the_longest_waiting_make_room() -> None:
    """Where there are as many as there may be, those that wait longest go, and busy ones stay."""
    ground = ServerConnections(most=2)
    busy = ground.open(address="192.0.2.1", phase=ConnectionPhase.BUSY)
    ground.now = 1
    waiting = ground.open(address="192.0.2.2")
    ground.now = 2
    assert ground.open(address="192.0.2.3") is not None
    assert busy is not None
    assert waiting is not None
    assert (busy.ended, waiting.ended) == ([], ["aborted"])


def test_one_address_has_a_share() -> None:
    """A quarter of all: its own longest waiting one makes room for its next, and others lose nothing."""
    ground = ServerConnections()
    other = ground.open(address="192.0.2.9")
    first, second, third = (ground.open() for _ in range(3))
    assert other is not None
    assert first is not None
    assert second is not None
    assert third is not None
    assert (other.ended, first.ended, second.ended, third.ended) == ([], ["aborted"], [], [])


def test_an_address_whose_share_is_busy_is_refused() -> None:
    """The requests are being answered, so none of them makes room."""
    ground = ServerConnections()
    assert [ground.open(phase=ConnectionPhase.BUSY) is not None for _ in range(3)] == [True, True, False]


def test_a_subscribers_ipv6_addresses_are_one() -> None:
    """A subscriber has 2^64 of them (RFC 6177, section 2), and would have as many shares."""
    ground = ServerConnections()
    opened = [ground.open(address=f"2001:db8::{number}", phase=ConnectionPhase.BUSY) is not None for number in range(3)]
    assert opened == [True, True, False]
    assert ground.open(address="2001:db8:0:1::1") is not None


def test_a_proxy_has_no_share() -> None:
    """Many people come from its address."""
    ground = ServerConnections()
    assert all(ground.open(address="198.51.100.7", phase=ConnectionPhase.BUSY) for _ in range(8))


def test_the_last_places_are_beyond_the_most() -> None:
    """They are there where all others are busy, end after two seconds of waiting, and are counted as well."""
    ground = ServerConnections(most=8)
    for number in range(8):
        assert ground.open(address=f"192.0.2.{number}", phase=ConnectionPhase.BUSY)
    over = [ground.open(address=f"198.51.100.{number}", phase=ConnectionPhase.IDLE) for number in range(OVER)]
    assert all(made is not None and made.is_over for made in over)
    ground.now = 3
    ground.all.sweep()
    assert all(made is not None and made.ended == ["idle"] for made in over)


def test_a_closed_connection_leaves_its_place() -> None:
    """The connection may have gone before it was open, or close twice."""
    ground = ServerConnections(most=1)
    made = ground.open(phase=ConnectionPhase.BUSY)
    assert made is not None
    ground.all.closed(made)
    ground.all.closed(made)
    assert ground.all.make_room("192.0.2.1")
    ground.all.not_coming("192.0.2.1")
    assert len(ground.all) == 0


@pytest.mark.parametrize(("descriptors", "most"), [(64, 8), (160, 88), (1024, 760), (20_000, 1000), (-1, 1000)])
def test_the_most_lies_below_the_descriptor_limit(descriptors: int, most: int) -> None:
    """The rest for the database, logs and calls to others is at least 64, on all but the smallest; -1 is
    RLIM_INFINITY.
    """
    assert most_connections(descriptors) == most


def test_a_kind_is_logged_once_a_minute() -> None:
    """The log comes at once, and then with the count of those in between; none is forgotten."""
    ground = ServerConnections()
    with capture_logs() as logged:
        for _ in range(1000):
            ground.sparse.warn("flood")
        ground.sparse.warn("other")
        ground.now = EVERY_S
        ground.sparse.flush()
        ground.sparse.flush()
    assert [(line["event"], line["count"]) for line in logged] == [("flood", 1), ("other", 1), ("flood", 999)]
