"""The watchdog barks at silence, and not at a busy, suspended or refused guard."""

from __future__ import annotations

from datetime import timedelta

from costguard.daemon.lease_keeper import LEASE_TTL, LIMIT, Watchdog


class Time:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def barks(watchdog: Watchdog, time: Time, seconds: int) -> bool:
    """Says whether it barks within these seconds of looks, one a second."""
    for _ in range(seconds):
        time.seconds += 1
        if watchdog.look():
            return True
    return False


def made() -> tuple[Watchdog, Time]:
    time = Time()
    return Watchdog(lambda _silence: None, monotonic=time), time


def test_silence_of_twice_the_lease_is_too_long() -> None:
    """The limit is not a second earlier."""
    watchdog, time = made()
    assert timedelta(seconds=18) == LIMIT == 2 * LEASE_TTL
    assert not barks(watchdog, time, 17)
    assert barks(watchdog, time, 1)


def test_answer_begins_the_count_again() -> None:
    """An answer in the last second is one in time."""
    watchdog, time = made()
    assert not barks(watchdog, time, 17)
    watchdog.answered()
    assert not barks(watchdog, time, 18)
    assert barks(watchdog, time, 1)


def test_suspended_process_gets_another_chance() -> None:
    """A laptop that slept for eight hours in the middle of a silence has the whole limit again when it wakes."""
    watchdog, time = made()
    assert not barks(watchdog, time, 17)
    time.seconds += 8 * 3600
    assert not watchdog.look()
    assert not barks(watchdog, time, 17)
    assert barks(watchdog, time, 1)


def test_clock_that_stands_still_counts_nothing() -> None:
    """Looks without passing time, such as a burst of late ones after a stall, are no silence."""
    watchdog, _time = made()
    assert not any(watchdog.look() for _ in range(100))
