"""A restored backup's pending work does nothing by itself."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from tests.access.access_setup import ADA, SlackHandlers, press
from tests.api.rows import NOW
from tests.builders import PROJECT, at
from tests.messages.outbox_setup import Place
from tests.reminders.execute_setup import Scene
from tests.reminders.last_check_setup import ROOT, judged_at

from costguard.daemon import restoring
from costguard.db.tables import messages as message_rows
from costguard.db.transaction import Database
from costguard.ledger import lifetimes, unknown_vms
from costguard.ledger.unknown_vms import UnknownVm
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.generation import Cause
from costguard.model.instance import InstanceKey, Status
from costguard.model.reminder import RequestKind
from costguard.reminders import message_rows as messages
from costguard.reminders import request_rows, slack_accounts, stop_rows
from costguard.reminders.stops import new_stop


def test_a_stop_that_somebody_asked_for_before_the_backup_is_refused(database: Database) -> None:
    """It may have been done since, or hit another run of the VM: they are asked to ask again."""
    scene = Scene(database)
    subject = scene.run()
    wanted = scene.ask(subject)
    _restored(database)
    assert wanted.id is not None
    with database.read() as connection:
        stored = request_rows.read(connection, wanted.id)
        assert request_rows.open_requests(connection) == []
    assert stored is not None
    assert stored.status == "refused"
    assert "Ask again" in stored.outcome


@pytest.mark.parametrize("outcome", [StopOutcome.INTENDED, StopOutcome.UNKNOWN])
def test_a_stop_that_may_not_have_begun_is_withdrawn(database: Database, outcome: StopOutcome) -> None:
    """Google is not asked on the strength of a decision that a backup remembers."""
    scene = Scene(database)
    subject = scene.run()
    action = scene.stop_by_rule(subject)
    with database.write() as connection:
        vm = lifetimes.known(connection, subject.instance_id)
        assert vm is not None
        new = new_stop(connection, "stop/1", action, vm, StopOutcome.INTENDED, at("11:00"))
        stop_id = stop_rows.add(connection, new)
        assert stop_id is not None
        stop_rows.advance(connection, stop_id, outcome)
    _restored(database)
    scene.executor().settle()
    assert scene.google.calls == []
    assert scene.stop(subject).outcome is StopOutcome.NOT_NEEDED


def test_nobody_is_stopped_for_a_warning_from_before_the_restore(sqlite_database: Database) -> None:
    """They may have answered it since; they are asked again, in a new cycle, before a rule stops anything."""
    judged = judged_at(sqlite_database)
    assert isinstance(judged.decided(), StopInstance)
    _restored(sqlite_database, judged.scene.clock.now())
    with pytest.raises(StopIteration):
        judged.decided()
    judged.warn("12:00", "12:30", cycle=1)
    judged.scene.clock.advance(timedelta(hours=2))
    assert judged.decided().reminder.split("/")[2] == "1"


def test_a_vm_that_a_restored_ledger_does_not_know_is_only_reminded_of(sqlite_database: Database) -> None:
    """It may work on a job, and jobs have limits of their own; what a person asks for is done."""
    judged = judged_at(sqlite_database)
    assert isinstance(judged.decided(), StopInstance)
    key = InstanceKey(PROJECT, "1001")
    vm = UnknownVm(key, "vm-1", "us-central1-a", "j9", 1, "", Status.RUNNING, "job j9 is lost", at("11:00"))
    with sqlite_database.write() as connection:
        unknown_vms.save(connection, [vm])
    with pytest.raises(StopIteration):
        judged.decided()
    judged.scene.ask(judged.subject, RequestKind.STOP, by=ROOT)
    assert judged.decided().rule == "request"


def test_a_message_that_was_sent_since_the_backup_is_not_sent_again(sqlite_database: Database) -> None:
    """The backup has it as waiting; Slack's history has it already, in a channel and among direct messages."""
    place = Place(sqlite_database)
    place.intend("to-channel", "#ops")
    place.intend("to-ada", ADA)
    place.intend("new", "#ops")
    with sqlite_database.write() as connection:
        accounts = slack_accounts.of_addresses(connection, [ADA])
        assert accounts == {}
    place.run(timedelta(minutes=5))
    sent = list(place.slack.keys())
    with sqlite_database.write() as connection:
        connection.execute(
            message_rows.update().values(status="intended", sending_at=None, accepted_at=None, channel="", ts="")
        )
        messages.intend(connection, messages.NewMessage("later", "notification", "#ops"), place.clock.now())
    _restored(sqlite_database, place.clock.now())
    place.run(timedelta(minutes=10))
    assert sorted(place.slack.keys()) == sorted([*sent, "later"])
    with sqlite_database.read() as connection:
        assert set(connection.scalars(select(message_rows.c.status))) == {"accepted"}


def test_a_button_from_before_the_restore_does_nothing(sqlite_database: Database) -> None:
    """Rows are numbered again in a restored database, so an old message may be about another VM than it seems."""
    office = SlackHandlers(sqlite_database)
    with closing(office.handler):
        subject = office.running()
        office.know("ada")
        _restored(sqlite_database, NOW)
        earlier = f"{int(NOW.timestamp()) - 60}.000100"
        office.handler.click(press(subject, kind=RequestKind.STOP, message_ts=earlier))
        assert office.open == []
        (said,) = office.ephemerals
        assert "older than the last restore" in said
        office.handler.click(press(subject, at="2.2", message_ts=f"{int(NOW.timestamp()) + 60}.000100"))
        assert len(office.open) == 1


def _restored(database: Database, now: datetime | None = None) -> None:
    moment = now or at("12:00")
    with database.write() as connection:
        restoring.begin(connection, Cause.RESTORED, moment)
