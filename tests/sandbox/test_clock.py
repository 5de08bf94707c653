"""The world's clocks, and serving in accelerated time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import requests
from tests.sandbox.vms import PROJECT, START, ZONE, body, new_world

from costguard_sandbox.clock import ManualClock, ScaledClock, pacific, to_ms
from costguard_sandbox.server import running
from costguard_sandbox.world import World


def test_a_manual_clock_never_goes_back() -> None:
    """It says where it stands and where it was asked to go."""
    clock = ManualClock(START)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.move_to(START - timedelta(seconds=1))


def test_clocks_refuse_naive_times_and_zero_speed() -> None:
    """A naive time would be wrong by hours."""
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2026, 11, 20))  # noqa: DTZ001  the naive time is the point
    with pytest.raises(ValueError, match="above 0"):
        ScaledClock(START, 0)


def test_only_a_manual_clock_is_advanced() -> None:
    """A running one would be torn out of step with real time."""
    world = World(ScaledClock(START, 1.0))
    with pytest.raises(TypeError, match="runs by itself"):
        world.advance(timedelta(seconds=1))


def test_a_running_clock_keeps_its_time_when_its_speed_changes() -> None:
    """Faster from then on, without a leap."""
    clock = ScaledClock(START, 1_000_000.0)
    before = clock.now()
    clock.speed = 1e-9
    after = clock.now()
    assert START <= before <= after
    assert clock.now() - after < timedelta(seconds=1)


def test_a_wait_on_a_running_clock_lasts_until_the_operation_is_done() -> None:
    """An insert is waited for in a fraction of a second at a thousand times real time."""
    world = World(ScaledClock(START, 1000.0), projects=[PROJECT])
    base = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}"
    with running(world) as url:
        operation = requests.post(f"{url}{base}/instances", json=body(), timeout=30).json()
        done = requests.post(f"{url}{base}/operations/{operation['name']}/wait", timeout=30).json()
        assert done["status"] == "DONE"
        assert requests.get(f"{url}{base}/instances/vm", timeout=30).json()["status"] == "RUNNING"


def test_a_running_clocks_speed_can_be_set_over_http() -> None:
    """The clock says that it runs."""
    world = World(ScaledClock(START, 1.0), projects=[PROJECT])
    with running(world) as url:
        shown = requests.post(f"{url}/sandbox/clock", json={"speed": 30}, timeout=30).json()
        assert (shown["kind"], shown["speed"]) == ("running", 30.0)
        assert datetime.fromisoformat(shown["now"]) >= START


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 11, 1, 8, 59, 59, 999_999, tzinfo=UTC), "2026-11-01T01:59:59.999-07:00"),
        (datetime(2026, 11, 1, 9, 0, tzinfo=UTC), "2026-11-01T01:00:00.000-08:00"),
        (datetime(2026, 3, 8, 10, 0, tzinfo=UTC), "2026-03-08T03:00:00.000-07:00"),
    ],
)
def test_pacific_time_through_the_changes_of_the_clocks(moment: datetime, written: str) -> None:
    """The offset says which of the two hours it is; milliseconds are cut, not rounded."""
    assert pacific(moment) == written
    assert datetime.fromisoformat(written) == to_ms(moment)


def test_an_event_within_an_event_does_not_run_ahead() -> None:
    """The effects of one event happen at its own moment, before anything that is due later."""
    world = new_world()
    seen: list[datetime] = []
    world.at(START + timedelta(hours=1), lambda: seen.append(world.now))
    world.at(START + timedelta(hours=2), lambda: seen.append(world.now))
    world.advance(timedelta(hours=5))
    assert seen == [START + timedelta(hours=1), START + timedelta(hours=2)]
