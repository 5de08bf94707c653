"""Jobs, attempts and views that tests say a rule about; it is 12:00 unless told otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.builders import at

from costguard.jobs.decide.actions import JobAction, JobDecision
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.view import AttemptView, JobContext, JobView, VmState
from costguard.model.attempt import AgentState, Attempt, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, SeenCheckpoint, Terms
from costguard.model.launch import Recipe
from costguard.model.lifetime import EndReason
from costguard.model.money import Money

NOW = at("12:00")
LONG_AGO = at("00:00")
SPOT, ON_DEMAND = ProvisioningModel.SPOT, ProvisioningModel.STANDARD
A, B, C = "us-central1-a", "us-central1-b", "us-east1-c"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
TERMS = Terms()
RECIPE = Recipe("n1-standard-8", (A, B, C), "image", 24 * HOUR, "nvidia-tesla-t4", 1)
PLAN = CheckpointPlan("gs://runs/one", "--from {checkpoint}")
ON_DISK = CheckpointPlan("/data/checkpoints", "--resume")
ANA, BEN = "ana@example.com", "ben@example.com"


def job(state: JobState = JobState.RUNNING, recipe: Recipe = RECIPE, **given: Any) -> Job:
    """Makes a job: fields of `Job` go there, and the rest into its request."""
    context = {
        name: given.pop(name)
        for name in ("cancel_asked_at", "cancel_asked_by", "next_at", "disk_given_up_at")
        if name in given
    }
    spec = {
        "kind": JobKind.TRAINING,
        "preset": "t4",
        "project": "acme",
        "owner": ANA,
        "checkpoint": PLAN,
        "max_crashes": 3,
        **given,
    }
    return Job("j1", JobSpec(**spec), recipe, state, "so it stood", at("08:00"), "api", **context)


def attempt(state: AttemptState = AttemptState.RUNNING, number: int = 1, **given: Any) -> Attempt:
    """Makes an attempt, requested at 10:00, there at 10:01."""
    values: dict[str, Any] = {
        "id": number,
        "job_id": "j1",
        "number": number,
        "name": f"cg-j1-{number}",
        "project": "acme",
        "zone": A,
        "provisioning_model": SPOT,
        "request_uuid": f"uuid-{number}",
        "max_run": 24 * HOUR,
        "state": state,
        "intended_at": at("10:00"),
        "rate": Money.of("0.50"),
    }
    if state not in (AttemptState.INTENDED, AttemptState.ASKED):
        values |= {"asked_at": at("10:00"), "made_at": at("10:01"), "gce_id": str(number)}
    if state is AttemptState.RUNNING:
        values["agent"] = agent()
    return Attempt(**{**values, **given})


def ended(outcome: Outcome, number: int = 1, gone: bool = True, **given: Any) -> AttemptView:
    """Makes an attempt that ended at 11:59."""
    state = AttemptState.OVER if gone else AttemptState.ENDING
    values = {"outcome": outcome, "ended_at": at("11:59"), "reason": f"it {outcome}", **given}
    return AttemptView(attempt(state, number, **values))


def no_room(number: int, zone: str, ended_at: datetime = NOW, **given: Any) -> AttemptView:
    values = {"zone": zone, "made_at": None, "gce_id": "", "ended_at": ended_at, **given}
    return ended(values.pop("outcome", Outcome.STOCKOUT), number, **values)


def agent(moment: datetime = NOW, **given: Any) -> AgentState:
    """The command runs since 10:05."""
    return AgentState(**{"at": moment, "run": 1, "started_at": at("10:05"), **given})


def exited(code: int | None = 0, reason: str = "exited", moment: datetime = NOW, **given: Any) -> Exit:
    return Exit(reason, moment, code, **given)


def standing(status: Status = Status.RUNNING, end: EndReason | None = None, by: str = "", **given: Any) -> VmState:
    """A VM that ended, did so at 11:59."""
    values: dict[str, Any] = {"started_at": at("10:01"), "end_reason": end, "ended_by": by}
    if end is not None:
        values["ended_at"] = at("11:59")
    return VmState(status, **{**values, **given})


GONE: dict[str, Any] = {"gone_at": at("11:59")}


def interruption(number: int = 1, run: int = 1, outcome: Outcome = Outcome.PREEMPTED, **given: Any) -> Interruption:
    values = {"happened_at": at("11:59"), "noticed_at": at("11:59"), "noticed_by": Notice.NOTICE, **given}
    return Interruption(number, "j1", run, outcome, **values)


def saved(moment: datetime, **given: Any) -> SeenCheckpoint:
    return SeenCheckpoint(
        **{"looked_at": NOW, "resume_from": "x", "written_at": moment, "advanced_at": moment, **given}
    )


def place(zone: str = A, model: ProvisioningModel = SPOT, rate: str | None = "0.50", **given: Any) -> LaunchPlace:
    return LaunchPlace(zone, model, Money.of(rate) if rate is not None else None, **given)


PLACES = (place(A), place(B), place(C))


def view(*attempts: AttemptView | Attempt, of_job: Job | None = None, **given: Any) -> JobView:
    seen = tuple(item if isinstance(item, AttemptView) else AttemptView(item) for item in attempts)
    return JobView(of_job or job(), seen, **given)


def decided(
    given: JobView,
    now: datetime = NOW,
    places: tuple[LaunchPlace, ...] = PLACES,
    listening_since: datetime = LONG_AGO,
    all_silent: bool = False,
    terms: Terms = TERMS,
) -> JobDecision:
    """Decided twice, to the same result."""
    context = JobContext(terms, now, listening_since, all_silent)
    decision = decide(given, places, context)
    kept = replace(given, job=replace(given.job, next_at=decision.next_at))
    again = decide(kept, places, context)
    assert again == decision
    return decision


def only(decision: JobDecision) -> JobAction:
    (action,) = decision.actions
    return action
