"""Socket Mode: the same handlers, over the SDK's own client, against the simulated workspace."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.web import SlackResponse
from tests.slack.deliveries import SUBJECT, VALUE
from tests.waiting import until

from costguard.errors import StoreError
from costguard.model.delivery.interaction import ButtonClick, JobClick, SlashCommand
from costguard.model.delivery.message import EphemeralContent
from costguard.slack.incoming import InteractionDispatcher
from costguard.slack.socket import Socket
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace

BUTTON = {"type": "button", "action_id": "keep", "value": VALUE, "text": {"type": "plain_text", "text": "Keep 4 h"}}


class Handlers:
    def __init__(self) -> None:
        self.clicks: queue.Queue[ButtonClick | JobClick] = queue.Queue()
        self.trouble: Exception | None = None

    def click(self, click: ButtonClick | JobClick) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.clicks.put(click)

    def command(self, command: SlashCommand) -> EphemeralContent:
        return EphemeralContent(f"You said {command.text}.")


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def dispatcher(handlers: Handlers) -> InteractionDispatcher:
    return InteractionDispatcher(handlers.click, handlers.command)


@pytest.fixture
def connected(endpoint: str, slack: Workspace, dispatcher: InteractionDispatcher) -> Iterator[Socket]:
    socket = Socket(APP_TOKEN, WebClient(base_url=endpoint, timeout=30), dispatcher, ping_every=0.1)
    socket.start()
    until(lambda: slack.sockets.connected == 1 and not socket.trouble)
    yield socket
    socket.close()


def posted(endpoint: str, button: dict[str, Any] = BUTTON) -> SlackResponse:
    client = WebClient(BOT_TOKEN, base_url=endpoint, timeout=30)
    return client.chat_postMessage(channel="gpu-costs", text="x", blocks=[{"type": "actions", "elements": [button]}])


def test_a_press_and_a_command_come_over_the_socket(
    endpoint: str, slack: Workspace, connected: Socket, handlers: Handlers, dispatcher: InteractionDispatcher
) -> None:
    """Both reach the handlers and are acknowledged; a command's answer is shown to the person alone."""
    sent = posted(endpoint)
    delivery = slack.interactions.click("ana", sent["channel"], sent["ts"], "keep")
    assert (delivery.ok, delivery.over) == (True, "socket")
    press = handlers.clicks.get(timeout=30)
    assert isinstance(press, ButtonClick)
    assert (press.user_id, press.subject, press.hours) == (slack.user("ana").id, SUBJECT, 4)
    assert slack.interactions.command("ana", "gpu-costs", "mine").ok
    assert slack.messages("gpu-costs", ephemeral=True)[-1].text == "You said mine."
    assert dispatcher.refused == {}


def test_what_is_malformed_is_acknowledged_and_counted(
    endpoint: str, slack: Workspace, connected: Socket, handlers: Handlers, dispatcher: InteractionDispatcher
) -> None:
    """A hostile value, an envelope of another kind or without an id: no handler is reached."""
    sent = posted(endpoint, {**BUTTON, "value": "run:1:1; DROP TABLE requests"})
    assert slack.interactions.click("ana", sent["channel"], sent["ts"], "keep").ok
    assert slack.sockets.send("events_api", {"type": "event_callback"}, 5) == {}
    assert slack.sockets.send("slash_commands", {"command": "/gpu"}, 5) == {}
    assert dispatcher.refused == {"malformed": 3}
    for wrong in ({"type": "interactive"}, {"type": "interactive", "envelope_id": 'x"', "payload": {}}):
        slack.sockets._open[0].put(wrong)
    until(lambda: dispatcher.refused == {"malformed": 5})
    assert handlers.clicks.empty()


def test_what_could_not_be_stored_is_not_acknowledged(
    endpoint: str, slack: Workspace, connected: Socket, handlers: Handlers
) -> None:
    """Slack then tells the person that it failed, and the next press is taken again."""
    slack.interactions.answer_seconds = 0.5
    sent = posted(endpoint)
    handlers.trouble = StoreError("The database is locked.")
    assert slack.interactions.click("ana", sent["channel"], sent["ts"], "keep").error == "operation_timeout"
    slack.interactions.answer_seconds = 30
    handlers.trouble = None
    assert slack.interactions.click("ana", sent["channel"], sent["ts"], "keep").ok


def test_it_connects_again_when_slack_asks_for_it(
    endpoint: str, slack: Workspace, connected: Socket, handlers: Handlers
) -> None:
    """Slack closes every connection after some hours; clicks go on to arrive afterwards."""
    sent = posted(endpoint)
    before = slack.calls["apps.connections.open"]
    slack.sockets.disconnect()
    until(lambda: slack.calls["apps.connections.open"] > before and slack.sockets.connected == 1)
    until(lambda: not connected.trouble)
    assert slack.interactions.click("ana", sent["channel"], sent["ts"], "keep").ok
    press = handlers.clicks.get(timeout=30)
    assert isinstance(press, ButtonClick)
    assert press.subject == SUBJECT


def test_a_token_that_slack_refuses_is_told(endpoint: str, slack: Workspace, dispatcher: InteractionDispatcher) -> None:
    """The start returns at once, and what is wrong can be asked for until the end."""
    socket = Socket("xapp-wrong", WebClient(base_url=endpoint, timeout=30), dispatcher)
    socket.start()
    try:
        until(lambda: "invalid_auth" in socket.trouble)
        assert slack.sockets.connected == 0
    finally:
        socket.close()


def test_a_socket_that_was_never_started_closes(endpoint: str, dispatcher: InteractionDispatcher) -> None:
    """There is nothing to close, and nothing in trouble."""
    socket = Socket(APP_TOKEN, WebClient(base_url=endpoint), dispatcher)
    socket.close()
    assert socket.trouble == ""
