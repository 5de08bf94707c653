"""The values of buttons come back as they were, and nothing else is taken."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.model.reminder import RequestKind, Subject, SubjectKind
from costguard.slack.payloads import LONGEST, ButtonValue, pack, unpack

ROWS = st.integers(0, 2**63 - 1)


@given(
    st.builds(Subject, st.sampled_from(SubjectKind), ROWS, ROWS),
    st.sampled_from(RequestKind),
    st.none() | st.integers(1, 8784),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_what_is_packed_comes_back(
    subject: Subject, kind: RequestKind, hours: int | None, due_at: datetime | None
) -> None:
    """Every part of a value survives the way through Slack, microseconds included, and fits in a button."""
    value = pack(subject, kind, hours, due_at)
    assert len(value) < LONGEST
    assert unpack(value) == ButtonValue(subject, kind, hours, due_at)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "stop",
        "[]",
        "[" * 2000,
        "null",
        "{}",
        '{"s":"run:1","a":"stop"}',
        '{"s":"run:1:2","a":"delete"}',
        '{"s":"walk:1:2","a":"stop"}',
        '{"s":"run:1:2","a":"keep","h":true}',
        '{"s":"run:1:2","a":"keep","h":0}',
        '{"s":"run:1:2","a":"keep","h":"4"}',
        '{"s":"run:1:2","a":"keep","h":999999}',
        '{"s":"run:1:2","a":"keep","d":"2026-11-03T14:00:00"}',
        '{"s":"run:1:2","a":"keep","d":"noon"}',
        '{"s":"run:1:2","a":"stop"' + " " * LONGEST + "}",
    ],
)
def test_strange_values_are_refused(value: str) -> None:
    """A value that was not packed here raises ValueError, whatever is wrong with it."""
    with pytest.raises(ValueError):  # noqa: PT011  the wording depends on what is wrong
        unpack(value)
