"""The first report: once, a day after watching began in shadow mode, to the contact; written when it is sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.messages.test_digest import stored
from tests.reminders.test_report import DAY, HOUR, RULES, STOPS, ran, reminded, watched

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.messages import outbox_rows
from costguard.messages.first_report import FirstReportComposer, FirstReportWatch
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.message import ReportContent

CONTACT = replace(RULES, contact="ana@lab.example")


def intended(database: Database, now: datetime = NOW, rules: Rules = CONTACT) -> bool:
    return FirstReportWatch(database, HandClock(now), rules).intend()


def made(database: Database, rules: Rules = CONTACT, now: datetime = NOW) -> Composed | Withdrawn:
    data = {"good_until": (NOW + DAY).isoformat()}
    message = StoredMessage(1, "report/first", "report", "ana@lab.example", data, "intended", NOW, NOW)
    with database.read() as connection:
        return FirstReportComposer(rules, "https://guard.example/")(connection, message, now)


def composed(database: Database, rules: Rules = CONTACT) -> ReportContent:
    result = made(database, rules)
    assert isinstance(result, Composed)
    assert isinstance(result.content, ReportContent)
    return result.content


def test_it_is_intended_once_a_day_after_watching_began(database: Database) -> None:
    """It is not stored before, and not again: by the same watch, by another process, or after it was withdrawn."""
    assert not intended(database)  # nothing was looked at
    watched(database, NOW - DAY)
    assert not intended(database, NOW - timedelta(seconds=1))
    watch = FirstReportWatch(database, HandClock(NOW), CONTACT)
    assert [watch.intend(), watch.intend(), intended(database), intended(database, NOW + DAY)] == [True] + [False] * 3
    (message,) = stored(database)
    assert (message.kind, message.address, message.status) == ("report", "ana@lab.example", "intended")
    with database.write() as connection:
        outbox_rows.withdraw(connection, message.id, "too late")
    assert not intended(database)


def test_without_a_contact_it_goes_to_the_channel(database: Database) -> None:
    """Nobody is named as who set it up."""
    watched(database, NOW - DAY)
    assert intended(database, rules=RULES)
    assert stored(database)[0].address == "#gpus"


@pytest.mark.parametrize(
    ("since", "rules"),
    [
        (NOW - 3 * DAY, CONTACT),  # as in a database of an earlier version
        (NOW - DAY, replace(CONTACT, is_shadow=False)),
        (NOW - DAY, replace(CONTACT, channel="")),
    ],
    ids=["long ago", "live", "no Slack"],
)
def test_none_is_sent_where_it_is_no_news(database: Database, since: datetime, rules: Rules) -> None:
    """Watching began long ago, rules stop VMs already, or there is no Slack."""
    watched(database, since)
    assert not intended(database, rules=rules)
    assert stored(database) == []


def test_it_says_which_vms_whose_and_how_much(database: Database) -> None:
    """The headline has the money, each VM a line, and the settings that come next stand as they are written."""
    watched(database)
    vm, run = ran(database, "late", 20)
    reminded(database, vm, run, 11.5, 9)
    ran(database, "nobodys", 9, owner="")
    content = composed(database)
    assert content.headline == (
        "1 VM would have been stopped, and cost $4.24 after that: $64.48 a month at that pace. "
        "1 VM is past its limit or idle."
    )
    (title, (late,)), (other, (nobodys,)) = content.sections
    assert (title, late.label, late.amount) == ("Would have been stopped, with the cost since", "late", "$4.24")
    assert late.remark == (
        "ada@lab.example, lab: past the limit of preset t4 (8 h) by 12 h; "
        "would have been stopped Fri 20 Nov 04:00 UTC; $0.530 an hour, $386.90 a month if it runs on"
    )
    assert (other, nobodys.amount) == ("Past their limits or idle, with the cost since", "$0.53")
    assert nobodys.remark.startswith("unowned, lab: past the limit")
    assert content.settings == ("[presets.t4]", 'when_unanswered = "stop"', "[enforcement]", "shadow = false")
    assert content.url == "https://guard.example/savings"
    assert content.notes[0] == "Watching since Wed 18 Nov 12:00 UTC (2 d), in shadow mode: rules stop nothing."
    assert content.notes[-1].startswith("GPU use: not known, as no GPU's figures were read")


def test_it_is_withdrawn_once_it_is_not_true_any_more(database: Database) -> None:
    """Rules stop VMs now, or it could not be sent for days."""
    watched(database)
    assert isinstance(made(database, replace(STOPS, is_shadow=False)), Withdrawn)
    assert isinstance(made(database, now=NOW + DAY), Withdrawn)
    assert isinstance(made(database, now=NOW + DAY - HOUR), Composed)


def test_a_quiet_fleet_has_one_too(database: Database) -> None:
    """Nothing would have been done, and it says so."""
    watched(database)
    ran(database, "new", 1)
    content = composed(database)
    assert (content.headline, content.sections) == ("Nothing was past its limit or idle.", ())
