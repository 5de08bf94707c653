"""Slack's payloads are taken apart strictly, or not at all."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slack.deliveries import DUE, SUBJECT, VALUE, command, command_form, form, press

from costguard.model.delivery.interaction import ButtonClick, JobChoice, JobClick, SlashCommand
from costguard.model.reminder import RequestKind
from costguard.slack.payloads import Envelope, click_of, command_in, command_of, envelope_of, interaction_of, pack_job

MESSAGE = press()["container"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_a_press_says_who_asks_what_of_which_subject() -> None:
    """All that a button carried comes back, and the key names workspace, message, moment and person."""
    assert interaction_of(form(press())) == ButtonClick(
        key="slack/T0TEAM/C0GPU/1795170000.000200/1795176000.000100/U0ANA",
        user_id="U0ANA",
        channel="C0GPU",
        message_ts="1795170000.000200",
        thread_ts="",
        kind=RequestKind.KEEP,
        subject=SUBJECT,
        hours=4,
        due_at=DUE,
        team_id="T0TEAM",
    )


def test_a_press_in_a_thread_knows_the_thread() -> None:
    """A reply's press names its thread's root as well."""
    result = click_of(press(container={**MESSAGE, "thread_ts": "1795160000.000300"}))
    assert result is not None
    assert result.thread_ts == "1795160000.000300"


def test_an_organisation_takes_the_place_of_a_workspace() -> None:
    """Where the app is installed for a whole organisation `team` is null, and the key names the organisation."""
    result = click_of(press(team=None, enterprise={"id": "E0ORG", "name": "Org"}))
    assert result is not None
    assert result.key.startswith("slack/E0ORG/")


def test_a_link_that_is_followed_asks_for_nothing() -> None:
    """Slack tells of buttons that are links too; they are understood, and are no press."""
    assert click_of(press(action={"url": "https://costguard.example/vm/lab/1"})) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "view_submission"},
        {"type": None},
        {"actions": []},
        {"actions": [press()["actions"][0]] * 2},
        {"actions": {"0": press()["actions"][0]}},
        {"actions": ["stop"]},
        {"user": None},
        {"user": {"id": ""}},
        {"user": {"id": "U0ANA/../U0BEN"}},
        {"user": {"id": "U" + "A" * 100}},
        {"user": {"id": 7}},
        {"team": None},
        {"team": {"id": "t"}},
        {"container": None},
        {"container": {**MESSAGE, "type": "view"}},
        {"container": {**MESSAGE, "channel_id": "gpu-costs"}},
        {"container": {**MESSAGE, "message_ts": 1795170000.0002}},
        {"container": {**MESSAGE, "message_ts": "1795170000"}},
        {"container": {**MESSAGE, "thread_ts": "none"}},
        {"action": {"type": "static_select"}},
        {"action": {"action_ts": ""}},
        {"action": {"action_ts": "١٢.٣"}},  # digits, but not Slack's
        {"value": None},
        {"value": {"s": "run:12:7", "a": "stop"}},
        {"value": ""},
        {"value": "stop"},
        {"value": "[]"},
        {"value": "[" * 250},
        {"value": VALUE + " " * 2000},
        {"value": json.dumps({"s": "run:12:7", "a": "delete"})},
        {"value": json.dumps({"s": "run:12", "a": "stop"})},
        {"value": json.dumps({"s": "run:-1:7", "a": "stop"})},
        {"value": json.dumps({"s": "run:0:7", "a": "stop"})},
        {"value": json.dumps({"s": f"run:{2**63}:7", "a": "stop"})},
        {"value": json.dumps({"s": "run:1; DROP TABLE requests:7", "a": "stop"})},
        {"value": json.dumps({"s": "run:12:7", "a": "keep", "h": 10**9})},
        {"value": json.dumps({"s": "run:12:7", "a": "keep", "h": "4"})},
        {"value": json.dumps({"s": "run:12:7", "a": "keep", "d": "2026-11-20T10:00:00"})},
        {"value": json.dumps({"s": "run:12:7", "a": "keep", "d": "0001-01-01T00:00:00+14:00"})},
    ],
)
def test_whatever_is_not_as_documented_is_no_press(changed: dict[str, Any]) -> None:
    """A part that is missing, of another type, or hostile makes the whole malformed."""
    with pytest.raises(ValueError):  # noqa: PT011 - any: the sender learns none
        click_of(press(**changed))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"payload",
        b"payload=",
        b"payload=%FF",
        b"payload=\xff",
        b"payload=%7B%22type%22",
        b"payload=null",
        b"payload=" + b"[" * 100_000,
        b"other=1",
        form(press()) + b"&payload=%7B%7D",
        form(press())[:-20],
        b"&".join(b"f%d=1" % number for number in range(1000)),
        json.dumps(press()).encode(),
    ],
)
def test_a_form_that_is_no_form_is_malformed(body: bytes) -> None:
    """Truncated, doubled, not UTF-8, too deep, too many fields, or another format: never a press."""
    with pytest.raises(ValueError):  # noqa: PT011
        interaction_of(body)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_parsers(body: bytes) -> None:
    """Any body at all is understood or a ValueError."""
    for parse in (interaction_of, command_in):
        with suppress(ValueError):
            parse(body)
    with suppress(ValueError):
        interaction_of(b"payload=" + body)


@given(ANYTHING)
def test_no_json_breaks_the_parsers(value: object) -> None:
    """Any JSON in place of what Slack sends is understood or a ValueError."""
    for parse in (click_of, command_of, envelope_of):
        with suppress(ValueError):
            parse(value)


def test_a_press_about_a_job_is_read() -> None:
    """The press gives what was packed; a value with another choice, or an id that is none of ours, is refused."""
    payload = press()
    payload["actions"][0]["value"] = pack_job("j7k2m9q4", JobChoice.NEVER_MIND)
    read = click_of(payload)
    assert isinstance(read, JobClick)
    assert (read.job, read.choice, read.key[:9]) == ("j7k2m9q4", JobChoice.NEVER_MIND, "slack/T0T")
    for value in ('{"j":"j7k2m9q4","c":"delete"}', '{"j":"../x","c":"never_mind"}', '{"j":7,"c":"never_mind"}'):
        payload["actions"][0]["value"] = value
        with pytest.raises(ValueError, match=r"delete|j is missing"):
            click_of(payload)


@given(st.data(), ANYTHING)
def test_any_part_may_be_anything(data: st.DataObject, value: object) -> None:
    """The result is a ValueError, or a press with all its parts in order, with one part replaced by anything."""
    payload = press()
    path = data.draw(st.sampled_from(list(_paths(payload))))
    *way, last = path
    part: Any = payload
    for step in way:
        part = part[step]
    part[last] = copy.deepcopy(value)
    try:
        result = click_of(payload)
    except ValueError:
        return
    if result is not None:
        assert (result.user_id[0], result.channel[0]) == ("U", "C")
        assert isinstance(result, ButtonClick)
        assert result.subject.instance_id > 0
        assert len(result.key) < 300
        assert result.key.isprintable()


def _paths(value: object, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*here, step)
        yield from _paths(inner, (*here, step))


def test_a_command_is_who_and_what() -> None:
    """The typed text is trimmed; the key is Slack's trigger, which is given once."""
    assert command_in(command_form(text="  all ")) == SlashCommand(
        "slack/T0TEAM/13.T0TEAM.abc/U0ANA", "U0ANA", "C0GPU", "all", "T0TEAM"
    )
    assert command_in(command_form(text="")).text == ""
    assert len(command_in(command_form(text="x" * 5000)).text) == 300


@pytest.mark.parametrize(
    "changed",
    [
        {"user_id": ""},
        {"user_id": "ana"},
        {"channel_id": "#gpu"},
        {"team_id": "7"},
        {"trigger_id": "a/b"},
        {"trigger_id": ""},
        {"command": "gpu"},
    ],
)
def test_a_command_with_a_wrong_part_is_malformed(changed: dict[str, str]) -> None:
    """Ids that are none, and a command that is none."""
    with pytest.raises(ValueError):  # noqa: PT011
        command_in(command_form(**changed))


def test_a_command_without_a_part_is_malformed() -> None:
    """Nothing that is needed may be missing."""
    for name in ("user_id", "channel_id", "team_id", "trigger_id", "command"):
        with pytest.raises(ValueError, match=r"missing|no command"):
            command_in(urlencode({key: value for key, value in command().items() if key != name}).encode())


def test_an_envelope_is_acknowledged_by_its_id() -> None:
    """Requests have an id; greetings and farewells have none, and ask for nothing."""
    envelope = {"envelope_id": "ab-12", "type": "interactive", "payload": press(), "accepts_response_payload": True}
    assert envelope_of(envelope) == Envelope("ab-12", "interactive", press())
    assert envelope_of({"type": "hello", "num_connections": 1}) is None
    assert envelope_of({"type": "disconnect", "reason": "refresh_requested"}) is None
    wrong: Any
    for wrong in ({}, {"type": "interactive"}, {"envelope_id": ""}, {"envelope_id": 'x"'}, []):
        with pytest.raises(ValueError):  # noqa: PT011
            envelope_of(wrong)
