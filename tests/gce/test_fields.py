"""Single fields of Google's answers: what no cloud can mean is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from costguard.gce.fields import Garbled, labels, moment, moment_or_none, number, said, short


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "1969-12-31T16:00:00.000-08:00",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59-12:00",
    ],
)
def test_time_of_no_thing_is_refused_and_says_never_where_one_may_be_missing(text: str) -> None:
    """An addition to the last of them, or another zone's clock, would overflow."""
    with pytest.raises(Garbled):
        moment(text)
    assert moment_or_none(text) is None


@pytest.mark.parametrize("text", ["2026-11-01T02:00:00", "yesterday", 5, ["2026-11-01T02:00:00Z"]])
def test_what_is_no_time_with_an_offset_is_refused(text: Any) -> None:
    """No such value is taken for a missing one."""
    for read in (moment, moment_or_none):
        with pytest.raises(Garbled):
            read(text)


def test_time_with_nanoseconds_is_read() -> None:
    """Google's APIs of protocol buffers write up to nine digits."""
    assert moment("2026-11-01T02:00:00.123456789Z") == datetime(2026, 11, 1, 2, 0, 0, 123456, UTC)


@pytest.mark.parametrize(
    "value", [-1, "-1", 10**30, "1" + "0" * 30, "9" * 5_000, 1.5, True, "1_000", "\u0663", None, ""]
)
def test_number_that_counts_nothing_is_refused(value: Any) -> None:
    """A negative size would be money that nobody owes."""
    with pytest.raises(Garbled):
        number(value)


def test_number_is_read_as_a_number_and_as_a_text() -> None:
    """Google writes those of 64 bits as texts."""
    assert (number(0), number("50"), number("65536")) == (0, 50, 65536)
    assert number("9223372036854775807", 2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize("value", ["owner", ["owner"], {"owner": {"a": "b"}}, {"owner": "x" * 2_000}])
def test_labels_that_are_none_are_refused(value: Any) -> None:
    """A thing without labels has none, or empty ones."""
    with pytest.raises(Garbled):
        labels(value)
    assert labels(None) == labels({}) == {}


def test_value_of_any_depth_can_be_shown() -> None:
    """Python refuses to write a list of a thousand levels."""
    deep: list[Any] = []
    for _ in range(2_000):
        deep = [deep]
    assert short(deep) == said(deep) == "a deeply nested list"
