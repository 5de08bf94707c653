"""A decision about a VM has its words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import KEY, at, observation

from costguard.access.rules import Rules
from costguard.ledger.narrate import tell_looks
from costguard.model.duration import span_text
from costguard.model.instance import Status
from costguard.model.observation import Unread
from costguard.model.preset import Match, Preset
from costguard.reminders.decide import decide
from costguard.reminders.watched import WatchedVm

PRESETS = {
    "t4": Preset("t4", Match(), timedelta(hours=8)),
    "free": Preset("free", Match(), None),
}
NOW = at("20:00")


def _reason(preset: str = "t4", since: str | None = "10:00", unread: tuple[str, ...] = ()) -> tuple[str, bool]:
    status = Status.RUNNING if since else Status.STOPPED
    vm = WatchedVm(KEY, "vm", "us-central1-a", status, preset, at(since) if since else None)
    (decision,) = decide([replace(vm, unread=frozenset(unread))], Rules(presets=PRESETS), {}, NOW).decisions
    return decision.reason, decision.overdue


def test_every_vm_has_a_reason() -> None:
    """A VM within its limit, past it, without one, stopped, or not known: each says why it is left alone."""
    assert _reason(since="15:00") == ("running for 5 h (limit of preset t4: 8 h)", False)
    assert _reason() == ("past the limit of preset t4 (8 h) by 2 h; no reminder is sent: Slack is not set up", True)
    assert _reason("free") == ("running for 10 h (preset free sets no limit)", False)
    assert _reason(since=None) == ("stopped: only what it stores is billed", False)
    assert _reason(unread=("us-central1-a",))[0].startswith("not known: us-central1-a could not be read")
    assert _reason(unread=("*",))[0].startswith("not known")
    assert _reason(unread=("us-east1-b",))[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-90, "0 s"), (0, "0 s"), (59, "59 s"), (3600, "1 h"), (5400, "1 h 30 min"), (90_061, "1 d 1 h"), (86_460, "1 d")],
)
def test_spans_are_told_by_their_two_largest_units(seconds: int, text: str) -> None:
    """A VM that started a moment ahead of our clock has run for no time, not for less than none."""
    assert span_text(timedelta(seconds=seconds)) == text


def test_reading_resumes_once_however_it_failed() -> None:
    """Refused credentials, then a lost permission: nothing can be read again until something can."""
    zone = Unread("us-central1-a", "it did not answer", "unreachable")
    refused, forbidden = (Unread("project", code, code) for code in ("credentials", "permission"))
    reported = []
    for before, now in (((zone,), (refused,)), ((refused,), (forbidden,)), ((forbidden,), (zone,)), ((zone,), ())):
        reported.append([(event.kind, event.data["scope"]) for event in tell_looks(observation(unread=now), before)])
    assert reported == [
        [("ReadingFailed", "project")],
        [("ReadingFailed", "project")],
        [("ReadingFailed", "us-central1-a"), ("ReadingResumed", "project")],
        [("ReadingResumed", "us-central1-a")],
    ]
