"""A VM that a group or a service of Google keeps has no stop button in Slack, and advice instead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.access.access_setup import SlackHandlers, command, press
from tests.api import rows
from tests.api.rows import NOW

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.messages import cards
from costguard.model.delivery.message import ListContent, ReminderContent, ReminderState, StateKind, VmCard
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.reminder import RequestKind, Subject, SubjectKind, Target
from costguard.slack.render import render

NODE = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-grp"}
NO_RULES = Rules({})
COMMAND = "gcloud container clusters resize train --node-pool t4 --num-nodes 0 --location LOCATION --project lab"


@pytest.fixture
def office(sqlite_database: Database) -> Iterator[SlackHandlers]:
    office = SlackHandlers(sqlite_database)
    yield office
    office.handler.close()


def card(database: Database, rules: Rules = NO_RULES, **given: Any) -> VmCard:
    with database.write() as connection:
        vm = rows.instance(connection, "gke-1", **given)
        life = rows.lifetime(connection, vm, NOW - timedelta(hours=9))
    with database.read() as connection:
        subject = Subject(SubjectKind.RUN, vm, life)
        result = cards.card(connection, accrual_at(connection, NOW), rules, subject, NOW, "")
    assert result is not None
    return result


def test_its_reminder_has_no_stop_button_and_says_why(sqlite_database: Database) -> None:
    """The command stands there as code, to be copied."""
    shown = card(sqlite_database, labels=NODE, origin=GROUP)
    buttons = cards.buttons(shown, NOW, cards.zone_of(None, Rules({})))
    assert [button.kind for button in buttons] == [RequestKind.KEEP, RequestKind.KEEP, RequestKind.DISOWN]
    state = ReminderState(StateKind.OPEN)
    text = str(render(ReminderContent(shown, 0, Target.OWNER, "past its limit", state, buttons)).blocks)
    assert "gke-1 belongs to GKE cluster train (node pool t4), so Costguard does not stop it" in text
    assert f"`{COMMAND}`" in text
    assert "Stop now" not in text


def test_a_groups_vm_has_one_where_the_settings_allow_it(sqlite_database: Database) -> None:
    """The group's own stop is behind the button, which says so before it is confirmed."""
    group = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}
    shown = card(sqlite_database, Rules({}, stop_through=frozenset({KeeperKind.GROUP})), origin=group)
    assert shown.never_stopped == ""
    buttons = cards.buttons(shown, NOW, cards.zone_of(None, Rules({})))
    (effect,) = (button.effect for button in buttons if button.kind is RequestKind.STOP)
    assert effect == (
        "gke-1 will be stopped by its group trainers, whose size falls by one; if it has an autoscaler, "
        "nothing is stopped. Its disks stay and are billed; data in memory and on local SSDs is lost."
    )


def test_the_effect_of_a_groups_stop_fits_into_slacks_question() -> None:
    """Slack cuts it after 300 characters; names of VMs and groups have up to 63."""
    keeper = Keeper(KeeperKind.GROUP, "g" * 63, "us-central1")
    assert len(keeper.own_stop("v" * 63)) <= 300


def test_any_other_reminder_has_one(sqlite_database: Database) -> None:
    """A VM that nothing keeps."""
    shown = card(sqlite_database)
    assert RequestKind.STOP in [button.kind for button in cards.buttons(shown, NOW, cards.zone_of(None, Rules({})))]
    assert shown.never_stopped == ""


def test_a_click_on_a_button_from_before_is_refused_with_the_reason(office: SlackHandlers) -> None:
    """A message that was sent before the ledger knew whose the VM is still has its button."""
    office.know("ada")
    subject = office.running(labels=NODE, origin=GROUP)
    office.handler.click(press(subject))
    office.handler.close()
    assert office.open == []
    (text,) = office.ephemerals
    assert "belongs to GKE cluster train (node pool t4)" in text
    assert COMMAND in text


def test_the_list_of_all_vms_still_has_it(office: SlackHandlers) -> None:
    """It can be kept and claimed."""
    office.know("adam")
    subject = office.running("gke-1", labels=NODE, origin=GROUP)
    shown = office.handler.command(command("all", "adam"))
    assert isinstance(shown, ListContent)
    assert office.listed == [subject]
