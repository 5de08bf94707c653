"""The executor's own rules, by steps that only write down what was done with them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from sqlalchemy import Connection
from tests.builders import at
from tests.fakes import HandClock

from costguard.actions.execute import CallKind, Executor, Step, StepDefaults, Urgency
from costguard.db.transaction import Database
from costguard.errors import CloudError, CloudUnavailable


@dataclass
class Log:
    """The log of what happened, in order."""

    entries: list[str] = field(default_factory=list)


@dataclass
class LoggedStep(StepDefaults):
    """A step that is logged. `odd` names the part of it that fails in a way nobody foresaw."""

    subject: str
    log: Log
    urgency: Urgency = Urgency.STOP
    odd: str = ""
    is_due: bool = True
    error: CloudError | None = None
    following: Step | None = None
    project: str = "acme"
    begins_with: CallKind = CallKind.WRITE

    def intend(self, connection: Connection, now: datetime) -> bool:
        self._log("intend")
        return self.is_due

    def call(self) -> None:
        self._log("call")
        if self.error is not None:
            raise self.error

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        self._log(f"settle {type(error).__name__}" if error is not None else "settle")
        return True

    def _log(self, part: str) -> None:
        self.log.entries.append(f"{self.subject} {part}")
        if self.odd and part.startswith(self.odd):
            raise ZeroDivisionError("odd")


def executor(database: Database, at_once: int = 9) -> Executor:
    return Executor(database, HandClock(at("12:00")), workers=1, at_once=at_once)


def test_intents_come_before_calls_and_outcomes_after_them(sqlite_database: Database) -> None:
    """The batches have the most urgent first; a step that is not due any more is not called."""
    log = Log()
    steps = [LoggedStep("b", log), LoggedStep("a", log, Urgency.LAUNCH), LoggedStep("c", log, is_due=False)]
    done = executor(sqlite_database).carry_out((), steps, None)
    assert log.entries == ["a intend", "b intend", "c intend", "a call", "b call", "a settle", "b settle"]
    assert (done.changed, done.calls) == ({"a", "b"}, 2)


def test_following_step_is_called_once_its_intent_is_committed(sqlite_database: Database) -> None:
    """The settled step committed that intent, so it is not intended once more."""
    log = Log()
    executor(sqlite_database).carry_out((), [LoggedStep("look", log, following=LoggedStep("stop", log))], None)
    assert log.entries == ["look intend", "look call", "look settle", "stop call", "stop settle"]


def test_step_whose_outcome_was_not_recorded_is_followed_by_none(sqlite_database: Database) -> None:
    """No commit means no intent to call Google for."""
    log = Log()
    step = LoggedStep("look", log, odd="settle", following=LoggedStep("stop", log))
    done = executor(sqlite_database).carry_out((), [step], None)
    assert "stop call" not in log.entries
    assert [type(error) for error in done.failed.values()] == [ZeroDivisionError]


@pytest.mark.parametrize(("error", "odd"), [(CloudUnavailable("no answer"), ""), (None, "call")])
def test_failed_call_is_settled_as_unknown(sqlite_database: Database, error: CloudError | None, odd: str) -> None:
    """A call without an answer, or with an error that nobody foresaw, may have been done. The others go on."""
    log = Log()
    steps = [LoggedStep("a", log, error=error, odd=odd), LoggedStep("b", log)]
    done = executor(sqlite_database).carry_out((), steps, None)
    assert log.entries[-2:] == ["a settle CloudUnavailable", "b settle"]
    assert len(done.troubles) == 1


def test_stopping_process_begins_nothing_more(sqlite_database: Database) -> None:
    """The process finishes what it has begun; the rest is left to the next run, and counted."""
    log, stop = Log(), threading.Event()

    class Stopping(LoggedStep):
        def call(self) -> None:
            stop.set()
            super().call()

    steps = [Stopping("a", log), LoggedStep("b", log)]
    done = executor(sqlite_database, at_once=1).carry_out((), steps, None, stop)
    assert log.entries == ["a intend", "a call", "a settle"]
    assert done.left == 1
