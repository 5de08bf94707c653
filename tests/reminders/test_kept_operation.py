"""A stop that a keeper's API accepted and then did not do has failed, in Google's own words, within a minute."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.reminders.execute_setup import Scene

from costguard.db.transaction import Database
from costguard.errors import CloudUnavailable, PermissionDenied
from costguard.model.action import StopOutcome
from costguard.model.keeper import KeeperKind
from costguard.model.launch import OperationAnswer
from costguard.model.reminder import Subject
from costguard.reminders.execute import LiveExecutor

BOOK = {"notebooks-product": "workbench-instances", "resource-name": "ana-book"}
MADE_BY_IT = {"notebooks-api": "PROD"}
THROUGH = frozenset({KeeperKind.WORKBENCH})
WORDS = "An internal error has occurred."


class Stopping:
    """A Workbench instance whose stop Google accepted at 12:00."""

    def __init__(self, database: Database) -> None:
        self.scene = Scene(database)
        self.subject: Subject = self.scene.run(labels=BOOK, origin=MADE_BY_IT)
        self.google = self.scene.google
        for vm in self.google.vms.values():
            vm.labels, vm.origin = dict(BOOK), dict(MADE_BY_IT)
        self.executor: LiveExecutor = self.scene.executor(through=THROUGH)
        (outcome,) = self.executor.carry_out([self.scene.stop_by_ana(self.subject)])
        assert outcome.result == "asked"
        self.operation = self.scene.stop(self.subject).operation

    def after(self, seconds: int) -> StopOutcome:
        self.scene.clock.advance(timedelta(seconds=seconds))
        self.executor.settle()
        return self.scene.stop(self.subject).outcome


@pytest.fixture
def stopping(sqlite_database: Database) -> Stopping:
    return Stopping(sqlite_database)


def test_an_operation_that_ends_in_error_is_a_stop_that_failed(stopping: Stopping) -> None:
    """The requester reads Google's sentence, not that hours have passed."""
    stopping.google.kept_answer = OperationAnswer(is_done=True, error_code="13", error_message=WORDS)
    assert stopping.after(30) is StopOutcome.FAILED
    assert stopping.google.operations_read == [("workbench", "vm-1", stopping.operation)]
    assert stopping.scene.stop(stopping.subject).error == WORDS
    (text,) = stopping.scene.event_texts("InstanceStopFailed")
    assert text == f"vm-1 could not be stopped: {WORDS}"


def test_an_operation_is_read_until_it_ends(stopping: Stopping) -> None:
    """Once it is done, or forgotten, only the VM is waited for."""
    stopping.google.kept_answer = OperationAnswer(is_done=False)
    assert [stopping.after(30) for _ in range(3)] == [StopOutcome.ASKED] * 3
    assert len(stopping.google.operations_read) == 3
    stopping.google.kept_answer = OperationAnswer(is_done=True)
    assert [stopping.after(30) for _ in range(5)] == [StopOutcome.ASKED] * 5
    assert len(stopping.google.operations_read) == 4
    stopping.scene.come_to_rest()
    assert stopping.after(30) is StopOutcome.DONE


@pytest.mark.parametrize("error", [PermissionDenied("No.", "Grant it."), CloudUnavailable("It does not answer.")])
def test_an_operation_that_cannot_be_read_is_waited_for(stopping: Stopping, error: PermissionDenied) -> None:
    """It is asked for again every five minutes; without any answer the stop fails after three hours."""
    stopping.google.troubles = [error] * 40
    assert [stopping.after(30) for _ in range(8)] == [StopOutcome.ASKED] * 8
    assert len(stopping.google.operations_read) == 1
    assert stopping.after(300) is StopOutcome.ASKED
    assert len(stopping.google.operations_read) == 2
    assert stopping.after(3 * 3600) is StopOutcome.FAILED


def test_the_operation_of_a_vm_that_nothing_keeps_is_not_asked_for(sqlite_database: Database) -> None:
    """Operations of VMs come with each look at the project."""
    scene = Scene(sqlite_database)
    executor = scene.executor()
    executor.carry_out([scene.stop_by_ana(scene.run())])
    scene.clock.advance(timedelta(minutes=1))
    executor.settle()
    assert scene.google.operations_read == []
