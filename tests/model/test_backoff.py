"""Waits between tries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from costguard.model.backoff import Backoff

BACKOFF = Backoff(timedelta(seconds=1), timedelta(minutes=1))


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (10**9, 60)]
)
def test_each_failure_in_a_row_doubles_the_wait_up_to_its_limit(failures: int, seconds: int) -> None:
    """The limit holds however many there were."""
    assert BACKOFF.after(failures) == timedelta(seconds=seconds)


def test_factor_is_given() -> None:
    """Reading Google is tried few times, each four times as patiently."""
    slow = Backoff(timedelta(seconds=0.5), timedelta(seconds=15), factor=4)
    assert [slow.after(failures).total_seconds() for failures in (1, 2, 3, 4, 99)] == [0.5, 2, 8, 15, 15]


def test_jitter_comes_from_the_caller() -> None:
    """It is a share of the wait: a decision that is made twice waits equally long."""
    assert BACKOFF.after(3, jitter=0.75) == timedelta(seconds=3)
    assert BACKOFF.after(99, jitter=1.25) == timedelta(seconds=75)


def test_retry_after_is_respected() -> None:
    """The other side's wait is the least that is waited, and shortens nothing."""
    assert BACKOFF.after(1, at_least=timedelta(minutes=5)) == timedelta(minutes=5)
    assert BACKOFF.after(4, at_least=timedelta(seconds=3)) == timedelta(seconds=8)
