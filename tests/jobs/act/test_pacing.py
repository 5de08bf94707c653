"""Google's limits on calls: a project's calls of one kind wait, longer each time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import at
from tests.fakes import HandClock
from tests.jobs.cloud import CloudOfVms

from costguard.actions.execute import CallKind
from costguard.errors import RateLimited
from costguard.jobs.act.pacing import PacedLauncher


def test_googles_limit_pauses_a_projects_calls_of_one_kind() -> None:
    """Twice as long each time, up to a minute; other kinds and projects go on."""
    clock = HandClock(at("12:00:30"))
    cloud = CloudOfVms(clock)
    cloud.per_minute = 0
    paced = PacedLauncher(cloud, clock)
    pauses = []
    for _ in range(7):
        with pytest.raises(RateLimited, match="it goes on at"):
            paced.look("acme", "z", "vm")
        until = paced.paused_until("acme", CallKind.READ)
        assert until is not None
        pauses.append((until - clock.now()).total_seconds())
        clock.moment = until
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    assert cloud.refused_calls == 7
    cloud.per_minute = None
    assert paced.look("acme", "z", "vm") is None
    cloud.per_minute = 0
    clock.advance(timedelta(minutes=1))
    with pytest.raises(RateLimited):
        paced.look("acme", "z", "vm")
    with pytest.raises(RateLimited, match="it goes on at"):
        paced.look("acme", "z", "vm")
    assert cloud.refused_calls == 8
    assert paced.paused_until("acme", CallKind.WRITE) is None
    assert paced.paused_until("other", CallKind.READ) is None
