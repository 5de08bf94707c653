"""`costguard slack samples` over HTTP to a simulated workspace: who gets what, and what its buttons do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.access.access_setup import SlackHandlers, user_id
from tests.scenario.slack_story import shown

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.doctor.finding import Finding
from costguard.main.slack_samples import send_samples
from costguard.messages.kinds import by_kind
from costguard.messages.reminder import ReminderComposer
from costguard.messages.samples import samples
from costguard.model.delivery.interaction import ButtonClick, JobClick
from costguard.model.delivery.person import Person
from costguard.settings import Settings, load
from costguard.slack.payloads import unpack, unpack_job
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.slack.model import Message
from costguard_sandbox.world import World

NIGHT = datetime(2026, 9, 26, 1, 30, tzinfo=UTC)  # a Saturday: nobody would be reminded now
SETTINGS = """
[watch]
projects = ["acme-training"]
[slack]
channel = "#gpu-costs"
endpoint = "{url}/slack/api/"
[reminders]
contact = "ana@example.com"
"""


@pytest.fixture
def world() -> World:
    return World(ManualClock(NIGHT))


@pytest.fixture
def settings(world: World, tmp_path: Path) -> Iterator[Settings]:
    with running(world) as url:
        file = tmp_path / "costguard.toml"
        file.write_text(SETTINGS.format(url=url))
        secrets = {"COSTGUARD_SLACK_TOKEN": BOT_TOKEN, "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET}
        yield load(file, secrets)


def sent(world: World, settings: Settings, address: str = "ana@example.com") -> list[Finding]:
    assert isinstance(world.clock, ManualClock)
    clock = world.clock

    def pause(seconds: float) -> None:
        clock.move_to(clock.now() + timedelta(seconds=seconds))

    return list(send_samples(settings, address, NIGHT, pause))


def received(world: World) -> list[Message]:
    """Ana's direct messages, with what she alone sees."""
    return world.slack.messages(world.slack.direct("ana").id, ephemeral=True)


def test_each_kind_arrives_marked_at_night_and_at_one_person(world: World, settings: Settings) -> None:
    """Slack's limit of one message a second is kept, and neither the channel nor anybody else gets anything."""
    findings = sent(world, settings)
    assert all(finding.is_ok for finding in findings), findings
    first, *messages = received(world)
    assert "Nothing in them is real" in shown(first)
    assert len(messages) == len(findings) == 11
    for message in messages:
        assert "sample" in shown(message).lower(), shown(message)
    news = next(message for message in messages if message.thread_ts)
    assert "sample-job" in shown(next(one for one in messages if one.ts == news.thread_ts))
    assert [message.ephemeral_to for message in messages if message.ephemeral_to] == [world.slack.user("ana").id]
    assert world.slack.messages("gpu-costs", ephemeral=True) == []
    assert world.slack.messages(world.slack.direct("ben").id, ephemeral=True) == []


def test_no_kind_of_message_is_left_out(world: World) -> None:
    """The samples cover what the product can send, and the answer to /gpu."""
    rules = Rules({})
    kinds = by_kind(rules, "", ReminderComposer(rules)).kinds
    ana = Person(world.slack.user("ana").id, "ana@example.com", "Ana")
    assert {sample.kind for sample in samples(ana, NIGHT, ZoneInfo("UTC"))} == {*kinds, "list"}


def test_an_address_that_slack_does_not_know_is_named(world: World, settings: Settings) -> None:
    """Nothing is sent, and the sentence says to whom it was not."""
    (finding,) = sent(world, settings, "nobody@example.com")
    assert not finding.is_ok
    assert "nobody@example.com" in finding.sentence


def test_buttons_of_samples_are_answered_and_do_nothing(
    world: World, settings: Settings, sqlite_database: Database
) -> None:
    """Each of them, in a guard whose database knows real VMs: no request, no event, and an answer that it arrived."""
    office = SlackHandlers(sqlite_database)
    office.running()
    office.know("ada")
    sent(world, settings)
    values = [
        element["value"]
        for message in received(world)
        for block in message.blocks
        if block["type"] == "actions"
        for element in block["elements"]
    ]
    assert len(values) > 8
    for number, value in enumerate(values):
        office.handler.click(_click(value, f"1.{number}"))
    office.handler.wait_until_stored()
    office.handler.close()
    assert (office.open, office.events) == ([], [])
    assert len(office.ephemerals) == len(values)
    assert set(office.ephemerals) == {
        "This was a button of a sample, so nothing was done. Your click reached Costguard: buttons work."
    }


def _click(value: str, at: str) -> ButtonClick | JobClick:
    who, key = user_id("ada"), f"slack/T0/D0/1.0/{at}/U0ADA"
    if (of_job := unpack_job(value)) is not None:
        return JobClick(key, who, "D0", at, "", *of_job)
    button = unpack(value)
    return ButtonClick(key, who, "D0", at, "", button.kind, button.subject, button.hours, button.due_at)
