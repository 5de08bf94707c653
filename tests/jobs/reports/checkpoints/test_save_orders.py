"""Saves that an agent asks its command for: what is refused, what the agent is given, and what the guard answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.jobbed import HOUR, attempt, job
from tests.jobs.world import ANA, RECIPE, World, world

from costguard.deadlines.hazards import PRIOR_PREEMPTIONS
from costguard.deadlines.save_interval import SaveTerms, best_interval
from costguard.jobs.act.attempts.vm_request import settings_for
from costguard.jobs.reports.agent_events import AgentEvent, EventsAnswer
from costguard.jobs.rows.recovery import drills
from costguard.jobs.submit.check.check_travel import travel_problems
from costguard.jobs.submit.check.options import option_problems
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobKind, JobSpec

AUTO = CheckpointPlan("gs://runs/one", "--from {checkpoint}", local="/out", save_on="file", save_every="auto")


def spec(plan: CheckpointPlan) -> JobSpec:
    return JobSpec(JobKind.TRAINING, "t4", "acme", ANA, command=("python", "train.py"), checkpoint=plan)


@pytest.mark.parametrize(
    ("plan", "where", "says"),
    [
        (replace(AUTO, save_on=None), "checkpoint.save_on", "add --save-on file"),
        (replace(AUTO, save_every=""), "checkpoint.save_every", "add --save-every auto"),
    ],
)
def test_half_of_the_options_is_refused_with_the_other_half(plan: CheckpointPlan, where: str, says: str) -> None:
    """The interval and the way to ask go together, and the refusal names what is missing."""
    (problem,) = travel_problems(spec(plan))
    assert problem.where == where
    assert says in problem.message


@pytest.mark.parametrize("every", ["auto", "20min", "90s", "1h30m", "15m"])
def test_intervals_that_are_taken(every: str) -> None:
    """The guard's choice, or a span as people write it."""
    plan = replace(AUTO, save_every=every)
    assert list(travel_problems(spec(plan))) == []
    assert [one for one in option_problems(spec(plan)) if "save" in one.where] == []


@pytest.mark.parametrize(("every", "says"), [("often", "is no interval"), ("10s", "is too short"), ("0m", "too short")])
def test_intervals_that_are_refused(every: str, says: str) -> None:
    """A word that is no span, and less than a minute."""
    (problem,) = (one for one in option_problems(spec(replace(AUTO, save_every=every))) if "save" in one.where)
    assert problem.where == "checkpoint.save_every"
    assert says in problem.message


@pytest.mark.parametrize(("every", "seconds"), [("auto", None), ("20min", 1200.0), ("1h30m", 5400.0)])
def test_agent_is_given_what_its_owner_chose(every: str, seconds: float | None) -> None:
    """Where the guard chooses, the agent asks it."""
    given = settings_for(job(checkpoint=replace(AUTO, save_every=every)), attempt(), (), "https://guard.example.com")
    assert given["save_on"] == "file"
    assert given.get("save_every_s") == seconds
    without = settings_for(job(), attempt(), (), "https://guard.example.com")
    assert {"save_on", "save_every_s"}.isdisjoint(without)


def ask(w: World, save_s: float | None = None) -> EventsAnswer:
    fields = {"run": 1, "every_s": 900.0, **({} if save_s is None else {"save_s": save_s})}
    seq = w.outside.seq["cg-j1-1"] + 1
    answer = w.hearing.hear("cg-j1-1", w.tokens.of("cg-j1-1"), [AgentEvent(seq, "save", w.clock.now(), fields)])
    w.outside.seq["cg-j1-1"] = answer.accepted_through
    return answer


def test_guard_answers_with_the_interval_for_the_vms_age(sqlite_url: str) -> None:
    """A zone without history has the prior; no interval before a save was measured; a longer one for an older VM."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=AUTO)
        w.until_up("cg-j1-1")
        w.start()
        assert ask(w).save_every_s is None
        young = ask(w, 60.0).save_every_s
        made_at = w.attempts()[0].made_at
        assert made_at is not None
        age = w.clock.now() - made_at
        expected = best_interval(SaveTerms(1 / 60, 0.0, PRIOR_PREEMPTIONS), age / HOUR) * 3600
        assert young == pytest.approx(expected, rel=0.05)
        w.clock.advance(20 * HOUR)
        old = ask(w, 60.0).save_every_s
        assert young is not None
        assert old is not None
        assert old > 1.5 * young


def test_measured_drill_counts_for_more_than_what_the_agent_saw(sqlite_url: str) -> None:
    """A request takes the wait for the end of a step as well."""
    with world(sqlite_url) as w:
        made = w.submit(checkpoint=AUTO, recipe=replace(RECIPE, notice=timedelta()))
        w.until_up("cg-j1-1")
        w.start()
        before = ask(w, 60.0).save_every_s
        with w.database.write() as connection:
            drills.add(connection, made, ANA, w.clock.now())
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "over", "result": "too_late", "saved_s": 600.0}))
        after = ask(w, 60.0).save_every_s
        assert before is not None
        assert after is not None
        assert after > 2 * before


def test_vm_that_is_not_preempted_saves_every_hour(sqlite_url: str) -> None:
    """No save need be measured for it."""
    with world(sqlite_url) as w:
        recipe = replace(RECIPE, provisioning_model=ProvisioningModel.STANDARD)
        w.submit(checkpoint=AUTO, recipe=recipe)
        w.until_up("cg-j1-1")
        w.start()
        assert ask(w).save_every_s == 3600


def test_job_that_saves_by_itself_gets_no_interval(sqlite_url: str) -> None:
    """The same holds where its owner chose the interval."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=replace(AUTO, save_every="20min"))
        w.until_up("cg-j1-1")
        w.start()
        assert ask(w, 60.0).save_every_s is None
