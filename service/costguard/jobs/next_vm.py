"""What follows once an attempt has ended: the next VM, or what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.jobs.backoff import after_failures
from costguard.jobs.choosing import Chosen, Hopeless, choose
from costguard.jobs.kept_disk import holds_only_copy
from costguard.jobs.placement import Place
from costguard.jobs.runs import may_write
from costguard.jobs.step import HOLD_AGAIN, Step, wait_stably, without_vm
from costguard.jobs.view import Circumstances, JobView, LaunchAttempt
from costguard.jobs.words import an_hour, clock, model_word
from costguard.model.job import JobState


def next_vm(view: JobView, places: Sequence[Place], about: Circumstances) -> Step:
    """Launch it as soon as nothing of the one before can write into the same checkpoints."""
    if view.last is not None and holds_only_copy(view, view.last):
        return Step(without_vm(view), f"{_ended(view)}; its VM is looked at, whose disk holds what it saved")
    stopped = view.unknown or view.hold or view.pause
    if stopped:
        until = wait_stably(view, about.now + HOLD_AGAIN, about.now)
        return Step(without_vm(view), f"waits: {stopped}", next_at=until)
    writers = [may_write(each, view.interruptions, about) for each in view.attempts]
    if any(writers):
        known = [until for until in writers if isinstance(until, datetime)]
        is_known = len(known) == sum(bool(each) for each in writers)
        return Step(without_vm(view), f"{_ended(view)}; {_WAITS_FOR_WRITER}", next_at=max(known) if is_known else None)
    after = after_failures(view, about.terms)
    if after is not None and after > about.now:
        return Step(without_vm(view), f"{_ended(view)}; tried again at {clock(after, about.now)}", next_at=after)
    chosen = choose(view, places, about)
    if isinstance(chosen, Hopeless):
        return Step(JobState.FAILED, chosen.reason)
    if not isinstance(chosen, Chosen):
        return Step(without_vm(view), chosen.reason, next_at=chosen.until)
    place, number = chosen.place, view.last.attempt.number + 1 if view.last is not None else 1
    launch = LaunchAttempt(
        view.job.id, number, place.zone, place.provisioning_model, chosen.max_run, chosen.reason, place.rate
    )
    asks = f"asks for a VM in {place.zone} ({model_word(place.provisioning_model)}, {an_hour(place.rate)})"
    before = _ended(view)
    return Step(JobState.PROVISIONING, f"{before}; {asks}" if before else asks, (launch,))


def _ended(view: JobView) -> str:
    return view.last.attempt.reason if view.last is not None else ""


_WAITS_FOR_WRITER = "the next VM is asked for once nothing on this one can write any more"
