"""Jobs on a reservation: its end ends their VMs, and the guard keeps the limit of each VM."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.decide.limits.ceiling import LEAST_RUN
from costguard.jobs.decide.view import JobView, PresentRun
from costguard.model.attempt import FINAL_STOPS
from costguard.model.buying import RESERVED
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe
from costguard.model.moments import clock_text

_SECOND = timedelta(seconds=1)


def is_over(recipe: Recipe, now: datetime) -> bool:
    """Says whether the job's reservation leaves too little time for another VM. One without a known end never does."""
    return recipe.reservation_ends_at is not None and recipe.reservation_ends_at - now < LEAST_RUN


def is_last_run(view: JobView, run: PresentRun, now: datetime) -> bool:
    """Says whether a run that came to a limit is the job's last one on this VM: nothing is left to run it again."""
    return run.attempt.stop_why in FINAL_STOPS or is_over(view.job.recipe, now)


def over_text(recipe: Recipe, now: datetime) -> str:
    ends = recipe.reservation_ends_at
    end = "" if ends is None else f" ends at {clock_text(ends, now)}, which"
    return f"reservation {recipe.reservation}{end} leaves less than {span_text(LEAST_RUN)} for another VM"


def within(recipe: Recipe, model: ProvisioningModel, longest: timedelta, now: datetime) -> timedelta:
    """Returns for how long a VM that is asked for now may run, in whole seconds: on a reservation, to its end."""
    if model is not RESERVED or recipe.reservation_ends_at is None:
        return longest
    return min(longest, (recipe.reservation_ends_at - now) // _SECOND * _SECOND)


def limit_of(view: JobView, run: PresentRun, ahead: timedelta) -> datetime | None:
    """Returns when the guard stops a VM on a reservation, `ahead` of its limit so that the command can save.

    Google keeps no limit of a VM that its reservation ends: see `gce.actions.vm_body`. None for all other VMs, and for
    one that is not up.
    """
    attempt, recipe = run.attempt, view.job.recipe
    began = run.began_at or attempt.made_at
    if attempt.provisioning_model is not RESERVED or began is None:
        return None
    limit = began + attempt.max_run
    return min(limit, recipe.reservation_ends_at or limit) - ahead


def limit_text(view: JobView, run: PresentRun, now: datetime) -> str:
    recipe = view.job.recipe
    if recipe.reservation_ends_at is not None and is_over(recipe, now):
        return f"reservation {recipe.reservation} ends at {clock_text(recipe.reservation_ends_at, now)}"
    return f"its VM reached its limit of {span_text(run.attempt.max_run)}"
