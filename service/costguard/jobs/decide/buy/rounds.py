"""Rounds through the places of a job that found no room, and how long each place is left in peace after them."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.decide.recovery.ended_runs import wait
from costguard.jobs.decide.view import NO_ROOM, JobView
from costguard.model.attempt import Attempt
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Terms

Key = tuple[str, ProvisioningModel]
Round = dict[Key, Attempt]


def rounds_of(view: JobView) -> list[Round]:
    """The attempts at the end that found no room; a place that comes again begins another round."""
    tail: list[Attempt] = []
    for seen in reversed(view.attempts):
        if seen.attempt.outcome not in NO_ROOM:
            break
        tail.append(seen.attempt)
    rounds: list[Round] = []
    for attempt in reversed(tail):
        key = (attempt.zone, attempt.provisioning_model)
        if not rounds or key in rounds[-1]:
            rounds.append({})
        rounds[-1][key] = attempt
    return rounds


def waited_for(view: JobView, terms: Terms, now: datetime) -> dict[Key, datetime]:
    """The places that found no room and are left in peace now, each with its moment; longer each time in a row."""
    refused: dict[Key, list[Attempt]] = {}
    for one in rounds_of(view):
        for key, attempt in one.items():
            refused.setdefault(key, []).append(attempt)
    due: dict[Key, datetime] = {}
    for key, tried in refused.items():
        last = tried[-1]
        until = (last.ended_at or now) + wait(terms, view.job.id, last.number, len(tried))
        if until > now:
            due[key] = until
    return due
