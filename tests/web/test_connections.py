"""Connections make room for others: without sockets."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from costguard.web.connections import (
    EVERY_S,
    OVER,
    ConnectionLimits,
    Connections,
    Place,
    SparseLog,
    most_connections,
)


class Waiting:
    def __init__(self) -> None:
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class ServerConnections:
    """Connections of a server with room for eight; addresses of 198.51.100.0/24 are a proxy's."""

    def __init__(self, most: int = 8) -> None:
        self.now = 0.0
        self.sparse = SparseLog(lambda: self.now)
        limits = ConnectionLimits(most=most)
        self.all = Connections(limits, lambda address: address.startswith("198.51.100."), self.sparse)

    def open(self, address: str = "192.0.2.1", *, busy: bool = False) -> tuple[Waiting, Place]:
        made = Waiting()
        place = self.all.open(made, address)
        if busy:
            self.all.works(made)
        return made, place


def test_the_longest_waiting_make_room() -> None:
    """Where there are as many as there may be, those that wait longest go, and busy ones stay."""
    ground = ServerConnections(most=3)
    busy, _ = ground.open("192.0.2.1", busy=True)
    again, _ = ground.open("192.0.2.2")
    waiting, _ = ground.open("192.0.2.3")
    ground.all.works(again)
    ground.all.waits(again)  # its request was answered
    _, place = ground.open("192.0.2.4")
    assert place is Place.ANY
    assert (busy.is_aborted, again.is_aborted, waiting.is_aborted) == (False, False, True)


def test_one_address_has_a_share() -> None:
    """A quarter of all: its own longest waiting one makes room for its next, and others lose nothing."""
    ground = ServerConnections()
    other, _ = ground.open("192.0.2.9")
    made = [ground.open()[0] for _ in range(3)]
    assert other.is_aborted is False
    assert [one.is_aborted for one in made] == [True, False, False]


def test_an_address_whose_share_is_busy_is_refused() -> None:
    """The requests are being answered, so none of them makes room."""
    ground = ServerConnections()
    assert [ground.open(busy=True)[1] for _ in range(3)] == [Place.ANY, Place.ANY, Place.NONE]


def test_a_subscribers_ipv6_addresses_are_one() -> None:
    """A subscriber has 2^64 of them (RFC 6177, section 2), and would have as many shares."""
    ground = ServerConnections()
    places = [ground.open(f"2001:db8::{number}", busy=True)[1] for number in range(3)]
    assert places == [Place.ANY, Place.ANY, Place.NONE]
    assert ground.open("2001:db8:0:1::1")[1] is Place.ANY


def test_a_proxy_has_no_share() -> None:
    """Many people come from its address."""
    ground = ServerConnections()
    assert {ground.open("198.51.100.7", busy=True)[1] for _ in range(8)} == {Place.ANY}


def test_the_last_places_are_for_the_health_check() -> None:
    """They are there where all others are busy; beyond them a connection is refused."""
    ground = ServerConnections(most=8)
    for number in range(8):
        assert ground.open(f"192.0.2.{number}", busy=True)[1] is Place.ANY
    places = [ground.open(f"198.51.100.{number}", busy=True)[1] for number in range(OVER + 1)]
    assert places == [Place.HEALTH] * OVER + [Place.NONE]


def test_a_closed_connection_leaves_its_place() -> None:
    """The connection may close twice, and one that was refused never had a place."""
    ground = ServerConnections(most=1)
    made, _ = ground.open(busy=True)
    ground.all.closed(made)
    ground.all.closed(made)
    assert ground.open("192.0.2.1", busy=True)[1] is Place.ANY
    refused, place = ground.open("192.0.2.1")
    assert place is Place.NONE
    ground.all.closed(refused)
    assert len(ground.all) == 1


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
