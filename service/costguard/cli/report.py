"""What one pass saw, recorded, decided and did, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from costguard.daemon.reconcile import PassReport
from costguard.ledger.record import Recorded
from costguard.model.action import (
    Action,
    AssignOwner,
    CancelJob,
    KeepLifetime,
    RefuseRequest,
    SendReminder,
    StopInstance,
)
from costguard.model.mending import command_for
from costguard.model.reminder import Subject

_SHOWN_FACTS = 20
_DONE = {
    SendReminder: ("reminder", "to be sent as fast as Slack takes them"),
    StopInstance: ("stop", "ordered (in shadow mode, what a rule orders is only written down)"),
    KeepLifetime: ("keep", "granted"),
    AssignOwner: ("owner", "changed"),
    CancelJob: ("job", "to be cancelled"),
    RefuseRequest: ("request", "refused"),
}


def lines(report: PassReport) -> Iterator[str]:
    """The report for people, a line each."""
    seconds = (report.finished_at - report.started_at).total_seconds()
    yield f"Pass of {report.started_at:%Y-%m-%d %H:%M:%S} UTC, {seconds:.2f} s"
    yield "Saw"
    for one in report.recorded:
        yield f"  {one.project}: {_saw(one)}"
        for part in one.unread:
            what = "all of it" if part.is_whole else part.scope
            yield f"    not read: {what} ({part.code}): {part.reason}"
            if command := command_for(one.project, part):
                yield f"    {command}"
        if one.error:
            yield f"    not recorded: {one.error}"
    changed = sum(one.new_or_changed for one in report.recorded)
    lifetimes = sum(one.lifetimes for one in report.recorded)
    facts = [fact for one in report.recorded for fact in one.facts]
    told_of = sum(one.fact_count for one in report.recorded)
    yield "Recorded"
    told = ", ".join(
        [
            f"{_count(changed, 'VM')} new or changed",
            f"{_count(lifetimes, 'lifetime')} started or ended",
            _count(told_of, "fact"),
        ]
    )
    yield f"  {told}"
    for fact in facts[:_SHOWN_FACTS]:
        yield f"    {fact.occurred_at:%Y-%m-%d %H:%M:%S}  {fact.text}"
    if told_of > _SHOWN_FACTS:
        yield f"    and {told_of - _SHOWN_FACTS} more: costguard facts"
    if report.charged is not None:
        yield f"  {_count(report.charged.charges, 'charge')} on {_count(len(report.charged.days), 'day')}"
        if report.charged.unpriced:
            yield f"  {report.charged.unpriced} could not be priced whole: costguard prices"
    yield "Decided"
    for decision in report.plan.decisions:
        yield f"  {decision.name}: {decision.reason}"
    if not report.plan.decisions:
        blind = any(_is_blind(one) for one in report.recorded)
        yield "  nothing: no VM is known, and not everything could be read" if blind else "  nothing: there are no VMs"
    yield "Did"
    yield from _did(report.plan.actions)


def as_json(report: PassReport) -> dict[str, Any]:
    """The same as one object."""
    decided = {_subject(action): type(action).__name__ for action in report.plan.actions}
    return {
        "started_at": report.started_at.isoformat(),
        "finished_at": report.finished_at.isoformat(),
        "projects": [
            {
                "project": one.project,
                "seen": None if _is_blind(one) else one.seen,
                "running": None if _is_blind(one) else one.running,
                "new_or_changed": one.new_or_changed,
                "gone": one.absent,
                "missing": one.missing,
                "lifetimes": one.lifetimes,
                "unread": [{"scope": part.scope, "code": part.code, "reason": part.reason} for part in one.unread],
                "facts": [
                    {"kind": fact.kind, "occurred_at": fact.occurred_at.isoformat(), "text": fact.text}
                    for fact in one.facts
                ],
                "error": one.error,
            }
            for one in report.recorded
        ],
        "charges": report.charged.charges if report.charged is not None else 0,
        "unpriced": report.charged.unpriced if report.charged is not None else 0,
        "decisions": [
            {
                "project": decision.key.project,
                "gce_id": decision.key.gce_id,
                "name": decision.name,
                "action": decided.get(decision.subject) if decision.subject is not None else None,
                "reason": decision.reason,
                "overdue": decision.overdue,
            }
            for decision in report.plan.decisions
        ],
        "actions": [
            {"kind": type(action).__name__, "subject": str(_subject(action)), "reason": action.reason}
            for action in report.plan.actions
        ],
    }


def _did(actions: Sequence[Action]) -> Iterator[str]:
    for kind, (word, what) in _DONE.items():
        if count := sum(isinstance(action, kind) for action in actions):
            yield f"  {_count(count, word)} {what}"
    if not actions:
        yield "  nothing: nobody is to be asked, and nobody asked for anything"


def _subject(action: Action) -> Subject:
    return action.subject if isinstance(action, SendReminder | StopInstance) else action.request.subject


def _is_blind(one: Recorded) -> bool:
    """Whether what was seen says nothing about what there is."""
    return bool(one.error) or any(part.scope in {"project", "instances"} for part in one.unread)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _saw(one: Recorded) -> str:
    if one.error:
        return "what was seen is not recorded"
    if _is_blind(one) and not one.seen:
        return f"not read; {_count(one.missing, 'VM')} known from before"
    parts = [f"{_count(one.seen, 'VM')}, {one.running} running"]
    if one.absent:
        parts.append(f"{one.absent} gone")
    if one.missing:
        parts.append(f"{one.missing} not listed and not known to be gone")
    return ", ".join(parts)
