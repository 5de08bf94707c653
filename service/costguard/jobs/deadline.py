"""Whether Spot would still make a job's deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.view import JobView
from costguard.model.job import JobKind

# A start, from the loss of one VM to useful work on the next, costs about this much. Google may take a Spot VM at any
# time, and an on-demand start must still fit after that: so Spot is begun only while two starts do.
START = timedelta(minutes=20)
_NONE = timedelta(0)


def spot_until(view: JobView, now: datetime) -> datetime | None:
    """Until when Spot may be begun, if nothing runs before; None where nothing is known of how long it takes."""
    spec = view.job.spec
    if spec.deadline is None or spec.expected is None or spec.kind is not JobKind.TRAINING:
        return None
    left = max(spec.expected - worked(view, now), _NONE)
    return spec.deadline - left - 2 * START


def worked(view: JobView, now: datetime) -> timedelta:
    """How much of its work is done: the time its command ran, without what was lost."""
    done = _NONE
    for each in view.attempts:
        heard = each.attempt.heard
        if heard.started_at is not None:
            vm_ended = each.vm.ended_at if each.vm is not None else None
            ended = (heard.exit.at if heard.exit is not None else None) or vm_ended or each.attempt.ended_at or now
            done += max(ended - heard.started_at, _NONE)
    lost = sum((each.lost for each in view.interruptions if each.lost is not None), start=_NONE)
    return max(done - lost, _NONE)
