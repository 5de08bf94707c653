"""Connections make room for others: without sockets."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from costguard.sparse_log import EVERY_S, SparseLog
from costguard.web.connections import OVER, ConnectionLimits, Connections, Place, most_connections


class Waiting:
    def __init__(self) -> None:
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class ServerConnections:
    """Connections of a server, by default one with room for eight."""

    def __init__(self, most: int = 8) -> None:
        self.now = 0.0
        self.sparse = SparseLog(lambda: self.now)
        self.all = Connections(ConnectionLimits(most=most), self.sparse)

    def open(self, *, busy: bool = False) -> tuple[Waiting, Place]:
        made = Waiting()
        place = self.all.open(made, "192.0.2.1")
        if busy:
            self.all.works(made)
        return made, place


def test_the_longest_waiting_make_room() -> None:
    """Where there are as many as there may be, those that wait longest go, and busy ones stay."""
    connections = ServerConnections(most=3)
    busy, _ = connections.open(busy=True)
    again, _ = connections.open()
    waiting, _ = connections.open()
    connections.all.works(again)
    connections.all.waits(again)  # its request was answered
    _, place = connections.open()
    assert place is Place.ANY
    assert (busy.is_aborted, again.is_aborted, waiting.is_aborted) == (False, False, True)
    assert len(connections.all) == 3


def test_the_last_places_are_for_the_health_check() -> None:
    """They are there where all others are busy; beyond them a connection is refused."""
    connections = ServerConnections(most=8)
    assert {connections.open(busy=True)[1] for _ in range(8)} == {Place.ANY}
    places = [connections.open(busy=True)[1] for _ in range(OVER + 1)]
    assert places == [Place.HEALTH] * OVER + [Place.NONE]


def test_a_closed_connection_leaves_its_place() -> None:
    """The connection may close twice, and one that was refused never had a place."""
    connections = ServerConnections(most=1)
    made, _ = connections.open(busy=True)
    connections.all.closed(made)
    connections.all.closed(made)
    assert connections.open(busy=True)[1] is Place.ANY
    for _ in range(OVER):
        connections.open(busy=True)
    refused, place = connections.open()
    assert place is Place.NONE
    connections.all.closed(refused)
    assert len(connections.all) == 1 + OVER


@pytest.mark.parametrize(("descriptors", "most"), [(64, 8), (160, 88), (1024, 760), (20_000, 1000), (-1, 1000)])
def test_the_most_lies_below_the_descriptor_limit(descriptors: int, most: int) -> None:
    """The rest for the database, logs and calls to others is at least 64, on all but the smallest; -1 is
    RLIM_INFINITY.
    """
    assert most_connections(descriptors) == most


def test_a_kind_is_logged_once_a_minute() -> None:
    """The log comes at once, and then with the count of those in between; none is forgotten."""
    connections = ServerConnections()
    with capture_logs() as logged:
        for _ in range(1000):
            connections.sparse.warn("flood")
        connections.sparse.warn("other")
        connections.now = EVERY_S
        connections.sparse.flush()
        connections.sparse.flush()
    assert [(line["event"], line["count"]) for line in logged] == [("flood", 1), ("other", 1), ("flood", 999)]
