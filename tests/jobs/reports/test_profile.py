"""Agents' windows become one profile of a job, whose cures stand with the diagnosis."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.jobs.reports.test_diagnosis import STARVED
from tests.jobs.world import World, world
from tests.pages import profile_story

from costguard.errors import Invalid, Missing
from costguard.jobs.reports import diagnosis
from costguard.jobs.reports.profile import JobProfileAnswer, profile_of
from costguard.ledger.accrual import accrual_at
from costguard_vm.diagnosis.signals import as_json as minute_json
from costguard_vm.profile.window import StackProfile, as_json

MINUTE = timedelta(minutes=1)


def _running(w: World, job_id: str = "j1", number: int = 1, **given: Any) -> None:
    if number == 1:
        w.submit(job_id, **given)
    w.until_up(f"cg-{job_id}-{number}")
    w.start(f"cg-{job_id}-{number}")
    w.step()


def _report(w: World, *numbers: int, name: str = "cg-j1-1", window: StackProfile | None = None, **more: Any) -> None:
    document = as_json(window or profile_story.slow())
    w.say(name, *(("profile", {"run": 1, "number": number, "window": document, **more}) for number in numbers))


def _profile(w: World, job_id: str = "j1", compared: str | None = None) -> JobProfileAnswer:
    with w.database.read() as connection:
        return profile_of(connection, job_id, compared)


def test_windows_add_up_and_count_once(database_url: str) -> None:
    """A window that an agent sends again, or after a later one, changes nothing."""
    with world(database_url) as w:
        _running(w)
        _report(w, 100, 200)
        _report(w, 200, 150)
        profile = _profile(w).profile
        assert (profile.windows, profile.stacks.main.looks) == (2, 400)
        assert profile.stacks.seconds == 20.0
        _report(w, 300)
        assert _profile(w).profile.windows == 3


def test_windows_of_all_attempts_add_up(sqlite_url: str) -> None:
    """A preempted job has one profile, whose windows come from all of its VMs."""
    with world(sqlite_url) as w:
        _running(w)
        _report(w, 100, 200)
        w.cloud.preempt(w.vm("cg-j1-1"))
        w.settle()
        _running(w, number=2)
        _report(w, 50, name="cg-j1-2")
        assert _profile(w).profile.windows == 3


def test_a_window_that_is_no_window_is_left_out(sqlite_url: str) -> None:
    """A VM may report anything."""
    with world(sqlite_url) as w:
        _running(w)
        w.say("cg-j1-1", ("profile", {"run": 1, "number": "many", "window": {}}), ("profile", {"run": 1, "number": 5}))
        assert not _profile(w).profile.is_known


def test_why_there_is_no_profile_is_said(sqlite_url: str) -> None:
    """It is unknown without permission as well as without the means, and the reason is shown."""
    with world(sqlite_url) as w:
        _running(w)
        assert "profiles are not allowed" in _profile(w).why_none
        _report(w, 100, window=StackProfile(error="py-spy read no stacks: Permission denied"))
        assert _profile(w).why_none == "No stacks could be read: py-spy read no stacks: Permission denied."
        _report(w, 200)
        assert _profile(w).why_none == ""


def test_the_cure_stands_with_the_advice_and_in_the_message(sqlite_url: str) -> None:
    """The owner reads it in the one message about the bound."""
    with world(sqlite_url) as w:
        _running(w)
        _report(w, 100)
        for _ in range(13):
            w.clock.advance(MINUTE)
            w.beat("cg-j1-1", step=(w.attempts("j1")[-1].agent.step or 0) + 60)
            w.say("cg-j1-1", ("activity", {"run": 1, "minute": minute_json(STARVED)}))
        with w.database.read() as connection:
            answer = diagnosis.diagnosis_of(connection, accrual_at(connection, w.clock.now()), "j1")
        assert answer is not None
        assert answer.advice.startswith("a data frame is indexed by rows in Rows.__getitem__ (data.py:14)")
        (event,) = w.events("JobBoundFound")
        assert "A data frame is indexed by rows in Rows.__getitem__ (data.py:14)" in event.text


def test_an_earlier_run_of_the_script_is_compared_with(sqlite_url: str) -> None:
    """It is the last one that is over and has a profile; another by its id, and none on request."""
    with world(sqlite_url) as w:
        for job_id, profile in (("j1", profile_story.slow()), ("j2", profile_story.fast()), ("j3", None)):
            _running(w, job_id)
            if profile is not None:
                _report(w, 100, name=f"cg-{job_id}-1", window=profile)
            w.exit(f"cg-{job_id}-1")
            w.settle()
            w.clock.advance(MINUTE)
        _running(w, "j4")
        _report(w, 100, name="cg-j4-1")
        earlier = [_profile(w, "j4", compared).earlier for compared in (None, "j1", "")]
        assert [None if one is None else one.id for one in earlier] == ["j2", "j1", None]
        assert _profile(w, "j1").earlier is None
        with pytest.raises(Invalid, match="has no profile"):
            _profile(w, "j4", "j3")
        with pytest.raises(Missing):
            _profile(w, "j4", "nothere")
