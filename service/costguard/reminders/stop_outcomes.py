"""What became of a stop, written down with its event, and told to the person who asked for it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import requests
from costguard.events import audit_log
from costguard.model.action import StopOutcome
from costguard.reminders import stop_rows, stop_words
from costguard.reminders.answering import is_open, refuse
from costguard.reminders.stop_case import StopCase, cost_of, failed_operation, is_on_its_way, is_our_end

_LONGEST = timedelta(hours=3)  # a graceful one may take an hour


def settled(connection: Connection, case: StopCase, now: datetime) -> tuple[StopOutcome, str] | None:
    """Its outcome, where the ledger shows that the run is over."""
    life = case.life
    if life is None or life.ended_at is None or (case.may_have_begun and is_on_its_way(case, life)):
        return None
    if not case.may_have_begun or not is_our_end(case, life):
        sentence = stop_words.ended_otherwise(case.vm, life)
        _close_request(connection, case, sentence, now)
        return _not_needed(connection, case, sentence, now)
    sentence = stop_words.done(case.vm, life, cost_of(connection, case, now))
    stop_rows.advance(connection, case.stop.id, StopOutcome.DONE, operation=case.stop.operation, settled_at=now)
    _close_request(connection, case, sentence, now)
    return StopOutcome.DONE, sentence


def is_to_be_asked(connection: Connection, case: StopCase, now: datetime) -> bool:
    """Whether Google is to be asked (again). What it accepted is waited for, and told where it failed."""
    stop = case.stop
    if stop.outcome is not StopOutcome.ASKED:
        return stop.try_after <= now
    failed = failed_operation(connection, case)
    if failed is None:
        if now - stop.intended_at > _LONGEST:
            words = "Google accepted it hours ago, and the VM still runs. Look at it in Google's console."
            fail(connection, case, words, now)
        return False
    fail(connection, case, failed.error_message or failed.error_code or "Google gave no words.", now)
    return False


def leave_alone(connection: Connection, case: StopCase, why: str, now: datetime) -> tuple[StopOutcome, str]:
    """Right before acting, it was not what had been decided about."""
    sentence = f"{case.name} is left alone: {why}."
    if case.request is not None and is_open(connection, case.request):
        refuse(connection, case.request, sentence, now)
    return _not_needed(connection, case, sentence, now)


def fail(connection: Connection, case: StopCase, words: str, now: datetime) -> None:
    """Gives up: the requester is notified, and the VM still counts as running."""
    operation = case.stop.operation
    stop_rows.advance(connection, case.stop.id, StopOutcome.FAILED, operation, words, settled_at=now)
    sentence = f"{case.name} could not be stopped: {words}"
    tell(connection, case, "InstanceStopFailed", sentence, now)
    if case.request is not None and is_open(connection, case.request):
        refuse(connection, case.request, sentence, now)


def tell(connection: Connection, case: StopCase, kind: str, text: str, now: datetime) -> None:
    stop, by = case.stop, case.request.by if case.request is not None else ""
    data = {"subject": str(stop.subject), "rule": stop.rule, "reminder": stop.reminder}
    audit_log.append(connection, [stop_words.event(case.vm, f"{kind}:{stop.key}", text, now, data, by)], now)


def _not_needed(connection: Connection, case: StopCase, sentence: str, now: datetime) -> tuple[StopOutcome, str]:
    operation = case.stop.operation
    stop_rows.advance(connection, case.stop.id, StopOutcome.NOT_NEEDED, operation, sentence, settled_at=now)
    tell(connection, case, "InstanceStopNotNeeded", sentence, now)
    return StopOutcome.NOT_NEEDED, sentence


def _close_request(connection: Connection, case: StopCase, sentence: str, now: datetime) -> None:
    if case.request is not None:
        requests.settle(connection, case.request.id, "done", sentence, now)
