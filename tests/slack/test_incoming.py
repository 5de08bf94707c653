"""Requests that are not Slack's, or were there before, are refused and counted, and reach no handler."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fakes import HandClock
from tests.slack.deliveries import NOW, SECRET, command_form, form, press, signed

from costguard.errors import StoreError
from costguard.model.delivery.interaction import ButtonClick, InteractionReply, JobClick, SlashCommand
from costguard.model.delivery.message import EphemeralContent, ListContent
from costguard.slack.incoming import BODY_LIMIT, InteractionDispatcher, SignedRequests


class Handlers:
    """Counts what comes; `trouble` is raised instead."""

    def __init__(self) -> None:
        self.clicks: list[ButtonClick | JobClick] = []
        self.commands: list[SlashCommand] = []
        self.trouble: Exception | None = None

    def click(self, click: ButtonClick | JobClick) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.clicks.append(click)

    def command(self, command: SlashCommand) -> ListContent | EphemeralContent:
        if self.trouble is not None:
            raise self.trouble
        self.commands.append(command)
        return EphemeralContent("Nothing of yours runs.")


class SlackIntake:
    def __init__(self) -> None:
        self.clock = HandClock(NOW)
        self.handlers = Handlers()
        self.dispatcher = InteractionDispatcher(self.handlers.click, self.handlers.command)
        self.door = SignedRequests(SECRET, self.clock, self.dispatcher)

    @property
    def reached(self) -> int:
        return len(self.handlers.clicks) + len(self.handlers.commands)


@pytest.fixture
def entrance() -> SlackIntake:
    return SlackIntake()


def test_a_press_is_handled_and_answered_with_nothing(entrance: SlackIntake) -> None:
    """A request as Slack signs it reaches the handler once, and the answer is an empty object."""
    body = form(press())
    assert entrance.door.interaction(signed(body), body) == InteractionReply(200, {})
    assert [click.user_id for click in entrance.handlers.clicks] == ["U0ANA"]
    assert entrance.dispatcher.refused == {}


def test_a_command_is_answered_for_one_person(entrance: SlackIntake) -> None:
    """The answer is ephemeral, with blocks and a text for those who see none."""
    body = command_form(text="mine")
    answer = entrance.door.command(signed(body), body)
    assert answer.status == 200
    assert answer.body is not None
    assert answer.body["response_type"] == "ephemeral"
    assert answer.body["text"] == "Nothing of yours runs."
    assert answer.body["blocks"]
    assert [command.text for command in entrance.handlers.commands] == ["mine"]


BODY = form(press())
GOOD = signed(BODY)


@pytest.mark.parametrize(
    ("reason", "headers", "body"),
    [
        ("forged", signed(BODY, secret="another"), BODY),
        ("forged", GOOD, BODY + b"&x=1"),
        ("forged", GOOD, BODY[:-30]),
        ("forged", GOOD, b""),
        ("forged", signed(BODY, x_slack_signature="v0=" + "0" * 64), BODY),
        ("forged", {**GOOD, "x-slack-request-timestamp": str(int(NOW.timestamp()) + 1)}, BODY),
        ("unsigned", {}, BODY),
        ("unsigned", {"content-type": GOOD["content-type"]}, BODY),
        ("unsigned", signed(BODY, x_slack_signature=""), BODY),
        ("unsigned", signed(BODY, x_slack_signature="v0=é"), BODY),
        ("unsigned", signed(BODY, x_slack_signature="v1" + GOOD["x-slack-signature"][2:]), BODY),
        ("unsigned", signed(BODY, x_slack_signature=GOOD["x-slack-signature"].upper()), BODY),
        ("unsigned", signed(BODY, x_slack_request_timestamp="soon"), BODY),
        ("unsigned", signed(BODY, x_slack_request_timestamp="-1"), BODY),
        ("unsigned", signed(BODY, x_slack_request_timestamp="9" * 5000), BODY),
        ("unsigned", signed(BODY, x_slack_request_timestamp="١٢٣"), BODY),
        ("unsigned", signed(BODY, x_slack_request_timestamp="1795176000.5"), BODY),
        ("stale", signed(BODY, at=NOW - timedelta(seconds=301)), BODY),
        ("stale", signed(BODY, at=NOW + timedelta(seconds=301)), BODY),
        ("stale", signed(BODY, x_slack_request_timestamp="999999999999"), BODY),
        ("oversized", GOOD, BODY + b" " * BODY_LIMIT),
        ("encoding", GOOD, b"payload=\xff\xfe"),
        ("content_type", signed(BODY, content_type="application/json"), BODY),
        ("content_type", signed(BODY, content_type=""), BODY),
        ("content_type", signed(BODY, content_type="multipart/form-data; boundary=x"), BODY),
    ],
)
def test_what_is_not_slacks_is_refused_and_counted(
    entrance: SlackIntake, reason: str, headers: Mapping[str, str], body: bytes
) -> None:
    """Forged, truncated, old, oversized or of another kind: 401 and nothing more, both for clicks and commands."""
    assert entrance.door.interaction(headers, body) == InteractionReply(401)
    assert entrance.dispatcher.refused == {reason: 1}
    entrance.door.command(headers, body)
    assert sum(entrance.dispatcher.refused.values()) == 2
    assert entrance.reached == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"payload=",
        b"payload=%7B",
        b"payload=null",
        b"payload=%FF",
        form({}),
        form(press(type="view_submission")),
        form(press(value="<script>")),
        form(press(value='{"s": "run:99999999999999999999:1", "a": "stop"}')),
        form(press()) + b"&payload=1",
        command_form(),
    ],
)
def test_what_slack_signed_and_nobody_understands_is_refused(entrance: SlackIntake, body: bytes) -> None:
    """A right signature does not make a press out of something malformed."""
    assert entrance.door.interaction(signed(body), body) == InteractionReply(401)
    assert entrance.dispatcher.refused == {"malformed": 1}
    assert entrance.reached == 0


def test_a_command_that_is_none_is_refused(entrance: SlackIntake) -> None:
    """A press at the commands' address is no command."""
    body = form(press())
    assert entrance.door.command(signed(body), body) == InteractionReply(401)
    assert entrance.dispatcher.refused == {"malformed": 1}


def test_a_request_is_taken_once(entrance: SlackIntake) -> None:
    """The same again is refused until it is too old anyhow; the next press is taken."""
    for wait, status in ((0, 200), (0, 401), (200, 401), (100, 401), (1, 401)):
        entrance.clock.advance(timedelta(seconds=wait))
        assert entrance.door.interaction(GOOD, BODY).status == status
    assert entrance.dispatcher.refused == {"replayed": 3, "stale": 1}
    again = form(press(action={"action_ts": "1795176001.000100"}))
    assert entrance.door.interaction(signed(again, at=entrance.clock.now()), again).status == 200
    assert entrance.reached == 2


def test_a_replay_from_slacks_future_is_refused_for_longer(entrance: SlackIntake) -> None:
    """Slack's clock may be ahead of ours: such a request is good for up to ten minutes, and meanwhile remembered."""
    ahead = signed(BODY, at=NOW + timedelta(seconds=299))
    assert entrance.door.interaction(ahead, BODY).status == 200
    entrance.clock.advance(timedelta(seconds=598))
    assert entrance.door.interaction(ahead, BODY).status == 401
    assert entrance.dispatcher.refused == {"replayed": 1}


def test_of_many_at_once_one_is_taken(entrance: SlackIntake) -> None:
    """A replay that arrives at the very same time is refused too, and each is counted."""
    start = threading.Barrier(8)

    def knock(_number: int) -> int:
        start.wait()
        return entrance.door.interaction(GOOD, BODY).status

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(knock, range(8))) == [200] + [401] * 7
    assert entrance.dispatcher.refused == {"replayed": 7}


def test_the_names_of_headers_have_no_case(entrance: SlackIntake) -> None:
    """Proxies write header names as they like, and may name the form's charset."""
    headers = {name.title(): value for name, value in GOOD.items()}
    headers["Content-Type"] += "; charset=utf-8"
    assert entrance.door.interaction(headers, BODY).status == 200


def test_another_app_or_workspace_is_told_apart_by_its_secret(entrance: SlackIntake) -> None:
    """The signing secret is the app's alone, so ids that we were never told do no harm."""
    body = form(press(api_app_id="A0OTHER", team={"id": "T0OTHER", "domain": "other"}))
    assert entrance.door.interaction(signed(body), body).status == 200


def test_what_the_store_says_is_not_swallowed(entrance: SlackIntake) -> None:
    """A press that could not be stored is an error; to a command the reason is the answer."""
    entrance.handlers.trouble = StoreError("The database is locked.", "Try again.")
    with pytest.raises(StoreError):
        entrance.door.interaction(GOOD, BODY)
    body = command_form()
    answer = entrance.door.command(signed(body), body)
    assert answer.body is not None
    assert answer.body["text"] == "That did not work: The database is locked. Try again."


@given(
    st.dictionaries(
        st.sampled_from(["x-slack-signature", "X-Slack-Request-Timestamp", "Content-Type", "x"]), st.text(max_size=80)
    ),
    st.binary(max_size=200),
)
@example({"x-slack-signature": "v0=" + "0" * 64, "X-Slack-Request-Timestamp": str(int(NOW.timestamp()))}, b"\xff")
def test_nothing_unsigned_reaches_a_handler(headers: dict[str, str], body: bytes) -> None:
    """The answer without the secret is a 401 that is counted once, whatever the headers and the body."""
    entrance = SlackIntake()
    assert entrance.door.interaction(headers, body) == InteractionReply(401)
    assert entrance.door.command(headers, body) == InteractionReply(401)
    assert sum(entrance.dispatcher.refused.values()) == 2
    assert entrance.reached == 0


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=40), max_size=5), st.binary(max_size=100))
def test_nothing_malformed_reaches_a_handler(fields: dict[str, Any], tail: bytes) -> None:
    """Signed garbage is a 401 as well."""
    entrance = SlackIntake()
    for body in (urlencode(fields).encode(), b"payload=" + urlencode({"": tail}).encode()):
        assert entrance.door.interaction(signed(body), body) == InteractionReply(401)
    assert entrance.reached == 0
