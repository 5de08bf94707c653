"""People of a scenario who press buttons: which message, when, and when they give up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier
from tests.sandbox.slack.receiver import App, receiving

from costguard_sandbox.slack.access import SIGNING_SECRET
from costguard_sandbox.slack.clicks import READING_TIME, PlannedClick
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def app(slack: Workspace) -> Iterator[App]:
    with receiving(App(SignatureVerifier(SIGNING_SECRET))) as app:
        slack.interactions.request_url = f"{app.url}/slack/interactions"
        yield app


def blocks(name: str, *action_ids: str) -> list[dict[str, Any]]:
    buttons = [
        {"type": "button", "action_id": one, "value": name, "text": {"type": "plain_text", "text": one}}
        for one in action_ids
    ]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": f"*{name}* is forgotten"}}
    return [section, *([{"type": "actions", "elements": buttons}] if buttons else [])]


def post(client: WebClient, channel: str, name: str, *action_ids: str) -> str:
    answer = client.chat_postMessage(channel=channel, text="A reminder", blocks=blocks(name, *action_ids))
    return str(answer["ts"])


def wish(slack: Workspace, user: str = "cleo", button: str = "keep", vm: str = "trainer-7") -> None:
    slack.clicks.plan(PlannedClick(user, button, vm, slack.now + 2 * HOUR))


def pressed(app: App) -> list[tuple[str, str, str]]:
    return [
        (payload["user"]["name"], payload["actions"][0]["action_id"], payload["actions"][0]["value"])
        for _, payload in app.received
    ]


def test_a_message_is_read_before_its_button_is_clicked(
    world: World, slack: Workspace, client: WebClient, app: App
) -> None:
    """A wish waits for a message and for the time that reading takes, and is fulfilled once, by a signed callback."""
    wish(slack)
    slack.clicks.run_due()
    post(client, "#gpu-costs", "trainer-7", "stop", "keep:4")
    slack.clicks.run_due()
    assert pressed(app) == []
    world.advance(READING_TIME)
    for _ in range(2):
        slack.clicks.run_due()
    assert pressed(app) == [("cleo", "keep:4", "trainer-7")]
    assert (app.refused, slack.clicks.waiting) == (0, ())


def test_the_latest_message_about_the_vm_is_clicked(
    world: World, slack: Workspace, client: WebClient, app: App
) -> None:
    """Neither another VM's, nor an older one, nor one whose buttons are gone, nor another person's direct message."""
    first = post(client, "#gpu-costs", "trainer-7", "keep:4")
    world.advance(MINUTE)
    post(client, "#ml-team", "trainer-7", "keep:24")
    world.advance(MINUTE)
    slack.limits.enforced = False
    post(client, "#gpu-costs", "trainer-7", "stop")
    post(client, "#gpu-costs", "other", "keep:1")
    post(client, slack.direct("ana").id, "trainer-7", "keep:2")
    answered = post(client, "#gpu-costs", "trainer-7", "keep:8")
    channel = slack.channel("gpu-costs").id
    client.chat_update(channel=channel, ts=answered, text="Kept", blocks=blocks("trainer-7"))
    world.advance(READING_TIME)
    wish(slack)
    slack.clicks.run_due()
    assert pressed(app) == [("cleo", "keep:24", "trainer-7")]
    wish(slack, button="keep:4")
    slack.clicks.run_due()
    assert app.received[-1][1]["container"]["message_ts"] == first


def test_a_click_without_a_message_is_dropped(
    world: World, slack: Workspace, client: WebClient, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says in the end what was waited for, and a message that comes later is left alone."""
    wish(slack)
    world.advance(2 * HOUR + READING_TIME)
    with caplog.at_level(logging.WARNING):
        slack.clicks.run_due()
    assert "cleo found no message about trainer-7 with a button 'keep' to click" in caplog.text
    post(client, "#gpu-costs", "trainer-7", "keep:4")
    world.advance(READING_TIME)
    slack.clicks.run_due()
    assert pressed(app) == []


def test_a_click_that_did_not_reach_the_app_is_repeated(
    world: World, slack: Workspace, client: WebClient, app: App
) -> None:
    """The guard may still be starting; once it took a press, it gets no other, whatever it answers."""
    where, slack.interactions.request_url = slack.interactions.request_url, ""
    post(client, "#gpu-costs", "trainer-7", "keep:4")
    world.advance(READING_TIME)
    wish(slack)
    slack.clicks.run_due()
    assert len(slack.clicks.waiting) == 1
    slack.interactions.request_url = where
    for _ in range(2):
        slack.clicks.run_due()
    assert len(pressed(app)) == 1


def test_an_unknown_person_cannot_click(slack: Workspace) -> None:
    """An unknown person is refused when the click is planned."""
    with pytest.raises(KeyError, match="no one in the workspace is 'zoe'"):
        wish(slack, user="zoe")
