"""Presses, commands and modals: what the app receives, and what its answers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier
from slack_sdk.webhook import WebhookClient
from tests.sandbox.slack.receiver import App, receiving
from tests.sandbox.slack.refusals import refused

from costguard_sandbox.slack.access import SIGNING_SECRET, SlackError
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

BLOCKS: list[dict[str, Any]] = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "trainer-7"}},
    {
        "type": "actions",
        "block_id": "choices",
        "elements": [
            {"type": "button", "action_id": "stop", "value": "7/due-1", "text": {"type": "plain_text", "text": "Stop"}},
            {
                "type": "static_select",
                "action_id": "keep",
                "options": [{"text": {"type": "plain_text", "text": "4 h"}, "value": "4"}],
            },
        ],
    },
]
MODAL = {
    "type": "modal",
    "callback_id": "keep",
    "private_metadata": "lifetime-7",
    "title": {"type": "plain_text", "text": "Keep trainer-7"},
    "submit": {"type": "plain_text", "text": "Keep"},
    "blocks": [
        {
            "type": "input",
            "block_id": "why",
            "label": {"type": "plain_text", "text": "Why?"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        }
    ],
}


@pytest.fixture
def app(slack: Workspace) -> Iterator[App]:
    with receiving(App(SignatureVerifier(SIGNING_SECRET))) as app:
        slack.interactions.request_url = f"{app.url}/slack/interactions"
        yield app


@pytest.fixture
def message(client: WebClient) -> tuple[str, str]:
    """Channel and ts of a message with buttons and metadata."""
    metadata = {"event_type": "reminder", "event_payload": {"key": "7/2"}}
    sent = client.chat_postMessage(channel="gpu-costs", text="trainer-7", blocks=BLOCKS, metadata=metadata)
    return sent["channel"], sent["ts"]


def test_a_click_is_signed_and_complete(slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """The SDK's verifier accepts the press, and its payload says who pressed what in which message."""
    delivery = slack.interactions.click("ben", *message, "stop")
    assert delivery.ok
    ((path, payload),) = app.received
    assert path == "/slack/interactions"
    assert payload["type"] == "block_actions"
    assert payload["user"]["id"] == slack.user("ben").id
    assert payload["container"]["message_ts"] == payload["message"]["ts"] == message[1]
    assert payload["channel"] == {"id": message[0], "name": "gpu-costs"}
    assert payload["message"]["metadata"]["event_payload"] == {"key": "7/2"}
    (action,) = payload["actions"]
    assert (action["action_id"], action["block_id"], action["value"]) == ("stop", "choices", "7/due-1")
    assert payload["response_url"].startswith(slack.base_url)


def test_a_wrong_secret_is_detected(slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """A press signed with another secret, or long ago, is refused by the app and shown as failed."""
    slack.interactions.signing_secret = "another"
    assert slack.interactions.click("ben", *message, "stop").status == 401
    slack.interactions.signing_secret = SIGNING_SECRET
    right = slack.interactions.now
    slack.interactions.now = lambda: right() - timedelta(minutes=6)
    assert slack.interactions.click("ben", *message, "stop").error == "dispatch_failed"
    assert (app.refused, app.received) == (2, [])
    assert slack.interactions.warnings == {message: "dispatch_failed"}


def test_a_menu_sends_its_choice(slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """A choice from a menu comes as the whole option."""
    slack.interactions.click("ben", *message, "keep", value="4")
    assert app.received[0][1]["actions"][0]["selected_option"]["value"] == "4"


def test_only_visible_elements_can_be_clicked(client: WebClient, slack: Workspace, message: tuple[str, str]) -> None:
    """Neither a stranger to the channel, nor a button that is gone, nor another's ephemeral message."""
    channel, ts = message
    private = client.chat_postEphemeral(
        channel=channel, user=slack.user("ana").id, text="x", blocks=[BLOCKS[1]]
    )["message_ts"]  # fmt: skip
    slack.channel(channel).members.discard(slack.user("dana").id)
    for who, where, action in (("dana", ts, "stop"), ("ben", private, "stop"), ("ben", ts, "gone")):
        with pytest.raises(SlackError):
            slack.interactions.click(who, channel, where, action)
    client.chat_update(channel=channel, ts=ts, text="It was stopped.")
    with pytest.raises(SlackError, match="action_not_found"):
        slack.interactions.click("ben", channel, ts, "stop")


def test_a_slow_app_times_out(slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """The person sees operation_timeout past the time for an answer; with nobody there, dispatch_failed."""
    done = threading.Event()
    app.answer = lambda _payload: (200, "" if done.wait(30) else "late")
    slack.interactions.answer_seconds = 0.3
    assert slack.interactions.click("ben", *message, "stop").error == "operation_timeout"
    assert slack.interactions.command("ben", "gpu-costs").error == "operation_timeout"
    done.set()
    assert slack.messages("gpu-costs", ephemeral=True)[-1].text == "`/gpu` failed with the error `operation_timeout`"
    slack.interactions.request_url = "http://127.0.0.1:9/slack/interactions"
    assert slack.interactions.click("ben", *message, "stop").error == "dispatch_failed"


def test_a_command_is_answered_in_private(slack: Workspace, app: App) -> None:
    """/gpu goes to `commands` next to the interactions; an answer in its response is for the person alone."""
    app.answer = lambda payload: (200, {"text": f"You said {payload['text']}"})
    assert slack.interactions.command("ben", "gpu-costs", "mine").ok
    ((path, payload),) = app.received
    assert path == "/slack/commands"
    assert (payload["command"], payload["text"], payload["user_name"]) == ("/gpu", "mine", "ben")
    (answer,) = slack.messages("gpu-costs", ephemeral=True)
    assert (answer.text, answer.ephemeral_to) == ("You said mine", slack.user("ben").id)


def test_response_urls_accept_later_answers(url: str, slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """The SDK's webhook client adds a private answer and replaces the message, five times in all."""
    slack.interactions.click("ben", *message, "stop")
    webhook = WebhookClient(app.received[0][1]["response_url"])
    assert webhook.send(text="Asked.").body == "ok"
    assert slack.messages("gpu-costs", ephemeral=True)[-1].ephemeral_to == slack.user("ben").id
    webhook.send(text="It was stopped.", replace_original=True)
    assert slack.message(*message).text == "It was stopped."
    assert slack.message(*message).blocks == []
    webhook.send(text="Told all.", response_type="in_channel")
    assert slack.messages("gpu-costs")[-1].text == "Told all."
    webhook.send_dict({"delete_original": True})
    assert slack.messages("gpu-costs")[0].deleted_at is not None
    assert webhook.send(text="fifth").status_code == 200
    assert (webhook.send(text="sixth").status_code, webhook.send(text="sixth").body) == (404, "used_url")


def test_response_urls_expire(world: World, slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """An answer comes too late after half an hour of the world's time."""
    slack.interactions.click("ben", *message, "stop")
    world.advance(timedelta(minutes=31))
    assert WebhookClient(app.received[0][1]["response_url"]).send(text="late").body == "expired_url"


def test_a_modal_is_opened_and_sent(client: WebClient, slack: Workspace, app: App, message: tuple[str, str]) -> None:
    """views.open within a press; errors keep the modal open, an empty answer closes it. A trigger opens one modal."""

    def answer(payload: dict[str, Any]) -> tuple[int, object]:
        if payload["type"] == "block_actions":
            client.views_open(trigger_id=payload["trigger_id"], view=MODAL)
            return 200, ""
        given = payload["view"]["state"]["values"]["why"]["text"]["value"]
        return 200, "" if given else {"response_action": "errors", "errors": {"why": "Say why."}}

    app.answer = answer
    assert slack.interactions.click("ben", *message, "stop").ok
    trigger = app.received[0][1]["trigger_id"]
    assert refused(lambda: client.views_open(trigger_id=trigger, view=MODAL)) == "exchanged_trigger_id"
    ben = slack.user("ben").id
    slack.interactions.submit("ben", {"why": {"text": {"type": "plain_text_input", "value": ""}}})
    view = slack.views.of(ben)
    assert view is not None
    assert view.errors == {"why": "Say why."}
    slack.interactions.submit("ben", {"why": {"text": {"type": "plain_text_input", "value": "one more epoch"}}})
    assert slack.views.of(ben) is None
    assert app.received[-1][1]["view"]["private_metadata"] == "lifetime-7"


def test_modals_have_rules(client: WebClient, slack: Workspace) -> None:
    """A modal that Slack would not show is refused with a pointer to the problem, and spends no trigger."""
    trigger = slack.views.trigger(slack.user("ben").id)
    broken = {**MODAL, "title": {"type": "plain_text", "text": "x" * 25}}
    assert refused(lambda: client.views_open(trigger_id=trigger, view=broken)) == "invalid_arguments"
    assert refused(lambda: client.views_open(trigger_id="1.2.3", view=MODAL)) == "invalid_trigger_id"
    assert client.views_open(trigger_id=trigger, view=MODAL)["view"]["callback_id"] == "keep"
