"""Block Kit's rules: what is refused, with which words, and what Slack adds."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from costguard_sandbox.slack.access import SlackError
from costguard_sandbox.slack.blocks import checked


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def section(text: str = "x") -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def button(action: str = "stop", **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": action, "text": plain("Stop"), **more}


def actions(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements)}


CONFIRM = {"title": plain("Stop?"), "text": plain("It stops."), "confirm": plain("Stop"), "deny": plain("No")}


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([section()] * 51, "no more than 50 items allowed [json-pointer:/blocks]"),
        ([section("x" * 3001)], "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"),
        ([section("")], "must be more than 0 characters [json-pointer:/blocks/0/text/text]"),
        ([{"type": "section"}], "must define either `text` or `fields` [json-pointer:/blocks/0]"),
        (
            [{"type": "section", "fields": [plain("x")] * 11}],
            "no more than 10 items allowed [json-pointer:/blocks/0/fields]",
        ),
        (
            [{"type": "section", "fields": [plain("x" * 2001)]}],
            "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]",
        ),
        (
            [{"type": "header", "text": plain("x" * 151)}],
            "must be less than 151 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}],
            "must be one of: plain_text [json-pointer:/blocks/0/text/type]",
        ),
        (
            [{"type": "context", "elements": [plain("x")] * 11}],
            "no more than 10 items allowed [json-pointer:/blocks/0/elements]",
        ),
        ([actions()], "missing required field: elements [json-pointer:/blocks/0]"),
        (
            [actions(*(button(str(number)) for number in range(26)))],
            "no more than 25 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (
            [actions(button(), button())],
            "`action_id` stop already exists for another element [json-pointer:/blocks/0]",
        ),
        (
            [actions(button(text=plain("x" * 76)))],
            "must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]",
        ),
        (
            [actions(button(value="x" * 2001))],
            "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]",
        ),
        (
            [actions(button(style="warning"))],
            "must be one of: primary, danger [json-pointer:/blocks/0/elements/0/style]",
        ),
        (
            [actions(button(confirm={**CONFIRM, "deny": plain("x" * 31)}))],
            "must be less than 31 characters [json-pointer:/blocks/0/elements/0/confirm/deny/text]",
        ),
        ([{**section(), "block_id": "a"}] * 2, "`block_id` a already exists [json-pointer:/blocks/1/block_id]"),
        ([{"type": "hologram"}], "unsupported type: hologram [json-pointer:/blocks/0/type]"),
    ],
)
def test_broken_blocks_are_refused(blocks: list[dict[str, Any]], problem: str) -> None:
    """Each rule has its message, with a pointer to where it is broken."""
    with pytest.raises(SlackError) as caught:
        checked(blocks)
    assert caught.value.code == "invalid_blocks"
    assert caught.value.more["errors"] == [problem]
    assert caught.value.more["response_metadata"] == {"messages": [f"[ERROR] {problem}"]}


def test_the_client_sees_the_messages(client: WebClient) -> None:
    """The SDK checks no count of blocks; the answer's metadata says what Slack minds."""
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="gpu-costs", text="x", blocks=[{"type": "divider"}] * 51)
    assert caught.value.response["error"] == "invalid_blocks"
    messages = caught.value.response["response_metadata"]["messages"]
    assert messages == ["[ERROR] no more than 50 items allowed [json-pointer:/blocks]"]


def test_much_text_in_all_is_too_long() -> None:
    """A message may break the bound on all its text while each block keeps its own."""
    with pytest.raises(SlackError, match="msg_blocks_too_long"):
        checked([section("x" * 2900) for _ in range(5)])


def test_rows_may_repeat_their_actions() -> None:
    """The same action id may stand in many blocks, and everything at its limit is taken."""
    rows = [{**section("x" * 100), "accessory": button(confirm=CONFIRM)} for _ in range(50)]
    assert len(checked(rows)) == 50
    assert checked([actions(*(button(str(number)) for number in range(25)))])


def test_what_slack_fills_in() -> None:
    """Missing ids and the flags of texts are filled in; what was given is not touched."""
    given = [section(), actions({"type": "button", "text": plain("Stop")})]
    stored = checked(given)
    assert stored[0]["text"] == {"type": "mrkdwn", "text": "x", "verbatim": False}
    assert stored[1]["block_id"] == "b01"
    assert stored[1]["elements"][0]["action_id"]
    assert "block_id" not in given[0]
