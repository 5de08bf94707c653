"""Socket Mode, with the real SDK's own client."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from slack_sdk import WebClient
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from costguard_sandbox.slack.access import APP_TOKEN
from costguard_sandbox.slack.workspace import Workspace

BUTTON = {"type": "button", "action_id": "stop", "value": "7", "text": {"type": "plain_text", "text": "Stop"}}


class Listener:
    """Acknowledges what it gets, unless it is deaf."""

    def __init__(self) -> None:
        self.deaf = False
        self.answer: dict[str, str] | None = None
        self.requests: queue.Queue[SocketModeRequest] = queue.Queue()

    def __call__(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        self.requests.put(request)
        if not self.deaf:
            client.send_socket_mode_response(SocketModeResponse(request.envelope_id, self.answer))


@pytest.fixture
def listener(url: str, slack: Workspace) -> Iterator[Listener]:
    listener = Listener()
    client = SocketModeClient(
        APP_TOKEN, web_client=WebClient(base_url=f"{url}/slack/api/"), auto_reconnect_enabled=False
    )
    client.socket_mode_request_listeners.append(listener)
    client.connect()
    try:
        yield listener
    finally:
        # Its threads wait for what comes next, and would notice the end only seconds later.
        client.closed = True
        client.message_queue.put(None)
        assert client.current_session is not None
        assert client.current_session.sock is not None
        client.current_session.sock.shutdown(socket.SHUT_RDWR)
        client.close()


def test_a_click_comes_over_the_socket(client: WebClient, slack: Workspace, listener: Listener) -> None:
    """An open socket gets the press as an interactive envelope, and its acknowledgement ends the wait."""
    sent = client.chat_postMessage(channel="gpu-costs", text="x", blocks=[{"type": "actions", "elements": [BUTTON]}])
    delivery = slack.interactions.click("ben", sent["channel"], sent["ts"], "stop")
    assert (delivery.ok, delivery.over) == (True, "socket")
    request = listener.requests.get(timeout=30)
    assert request.type == "interactive"
    assert request.payload["actions"][0]["value"] == "7"
    assert slack.sockets.delivered == [(request.envelope_id, "interactive")]


def test_a_command_is_answered_in_its_acknowledgement(slack: Workspace, listener: Listener) -> None:
    """The payload of the acknowledgement is shown to the person alone."""
    listener.answer = {"text": "Nothing of yours is running."}
    assert slack.interactions.command("ben", "gpu-costs", "mine").ok
    assert listener.requests.get(timeout=30).type == "slash_commands"
    assert slack.messages("gpu-costs", ephemeral=True)[-1].text == "Nothing of yours is running."


def test_no_acknowledgement_is_a_timeout(slack: Workspace, listener: Listener) -> None:
    """An envelope that nobody acknowledges in time ends as operation_timeout."""
    listener.deaf = True
    slack.interactions.answer_seconds = 0.3
    assert slack.interactions.command("ben", "gpu-costs").error == "operation_timeout"


def test_a_ticket_opens_one_connection(url: str, slack: Workspace) -> None:
    """A guessed ticket is refused, and a real one is good for one connection only."""
    ticket = slack.sockets.ticket()
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    statuses = []
    for given in ("guess", ticket, ticket):
        connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
        connection.request("GET", f"/slack/socket?ticket={given}", headers=upgrade)
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses == [403, 101, 403]
