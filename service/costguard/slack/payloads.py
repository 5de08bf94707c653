"""Payloads from Slack, parsed strictly: https://docs.slack.dev/reference/interaction-payloads.

A payload that is not as Slack documents it raises ValueError. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import orjson

from costguard.model.delivery.interaction import ButtonClick, JobChoice, JobClick, SlashCommand
from costguard.model.reminder import RequestKind, Subject

LONGEST = 300  # characters: what `pack` writes is shorter, and Slack would take 2,000
_MOST_HOURS = 24 * 366


@dataclass(frozen=True, slots=True)
class ButtonValue:
    """`hours` None on a keep means until tomorrow morning."""

    subject: Subject
    kind: RequestKind
    hours: int | None = None
    due_at: datetime | None = None


def pack(subject: Subject, kind: RequestKind, hours: int | None = None, due_at: datetime | None = None) -> str:
    """`due_at` keeps its microseconds: a click is stale unless it equals the present one."""
    value: dict[str, str | int] = {"s": str(subject), "a": kind.value}
    if hours is not None:
        value["h"] = hours
    if due_at is not None:
        value["d"] = due_at.isoformat()
    return json.dumps(value, separators=(",", ":"))


def pack_job(job: str, choice: JobChoice) -> str:
    return json.dumps({"j": job, "c": choice.value}, separators=(",", ":"))


def unpack_job(value: str) -> tuple[str, JobChoice] | None:
    """Reads a button's value; None for one that is about no job.

    Raises ValueError for one that `pack_job` did not write.
    """
    fields = json.loads(value) if len(value) <= LONGEST else None
    if not isinstance(fields, dict) or "j" not in fields:
        return None
    return _word(fields, "j", _JOB), JobChoice(str(fields.get("c")))


def unpack(value: str) -> ButtonValue:
    """Raises ValueError for anything that `pack` did not write."""
    if len(value) > LONGEST:
        raise ValueError("the value is longer than any that was written here")
    fields = json.loads(value)
    if not isinstance(fields, dict):
        raise ValueError("the value is no object")
    hours, due = fields.get("h"), fields.get("d")
    if hours is not None and (type(hours) is not int or not 1 <= hours <= _MOST_HOURS):
        raise ValueError(f"{hours!r} is no number of hours")
    due_at = None if due is None else datetime.fromisoformat(str(due))
    if due_at is not None and due_at.tzinfo is None:
        raise ValueError("the due time has no time zone")
    return ButtonValue(Subject.parse(str(fields.get("s"))), RequestKind(str(fields.get("a"))), hours, due_at)


_USER = re.compile(r"[UW][A-Z0-9]{1,30}")
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{1,30}")
_TEAM = re.compile(r"[TE][A-Z0-9]{1,30}")
_JOB = re.compile(r"[a-z0-9]{1,40}")
_MOMENT = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
_TRIGGER = re.compile(r"[0-9A-Za-z.]{1,120}")
_ENVELOPE = re.compile(r"[0-9A-Za-z-]{1,120}")
_MOST_FIELDS = 50
_MOST_WORDS = 300  # of what is typed after a command; ours are short
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message over Socket Mode, acknowledged by its id."""

    id: str
    kind: str  # "interactive", "slash_commands", or an unexpected kind
    payload: object


def interaction_of(body: bytes) -> ButtonClick | JobClick | None:
    """The click in a form's `payload`; None for a clicked link, which Slack reports, too."""
    form = _form(body)
    if "payload" not in form:
        raise ValueError("there is no payload")
    return click_of(orjson.loads(form["payload"]))


def click_of(payload: object) -> ButtonClick | JobClick | None:
    """The clicked button of `block_actions`; None for a link."""
    fields = _object(payload)
    if fields.get("type") != "block_actions":
        raise ValueError("it is no button click")
    actions = fields.get("actions")
    if not isinstance(actions, list) or len(actions) != 1:
        raise ValueError("it does not have exactly one action")
    action = _object(actions[0])
    if action.get("type") != "button":
        raise ValueError("it is no button")
    user = _object(fields.get("user"))
    user_id = _word(user, "id", _USER)
    if "url" in action:
        return None
    container = _object(fields.get("container"))
    if container.get("type") != "message":
        raise ValueError("the button is in no message")
    channel = _word(container, "channel_id", _CHANNEL)
    message_ts = _word(container, "message_ts", _MOMENT)
    clicked_at = _word(action, "action_ts", _MOMENT)
    value = action.get("value")
    if not isinstance(value, str):
        raise ValueError("the button has no value")
    key = f"slack/{_team(fields)}/{channel}/{message_ts}/{clicked_at}/{user_id}"
    thread_ts = _word(container, "thread_ts", _MOMENT) if container.get("thread_ts") else ""
    team_id = _word(user, "team_id", _TEAM) if user.get("team_id") else ""
    if (pressed_job := unpack_job(value)) is not None:
        return JobClick(key, user_id, channel, message_ts, thread_ts, *pressed_job, team_id)
    pressed = unpack(value)
    subject = pressed.subject
    if not (0 < subject.instance_id <= _LARGEST_ID and 0 <= subject.lifetime_id <= _LARGEST_ID):
        raise ValueError("the subject's ids do not fit into a database")
    try:
        due_at = None if pressed.due_at is None else pressed.due_at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the due time is outside the calendar") from error
    return ButtonClick(
        key=key,
        user_id=user_id,
        channel=channel,
        message_ts=message_ts,
        thread_ts=thread_ts,
        kind=pressed.kind,
        subject=subject,
        hours=pressed.hours,
        due_at=due_at,
        team_id=team_id,
    )


def command_in(body: bytes) -> SlashCommand:
    return command_of(_form(body))


def command_of(payload: object) -> SlashCommand:
    fields = _object(payload)
    user_id = _word(fields, "user_id", _USER)
    text = fields.get("text", "")
    if not isinstance(text, str) or not str(fields.get("command", "")).startswith("/"):
        raise ValueError("it is no command")
    team = _word(fields, "team_id", _TEAM)
    return SlashCommand(
        key=f"slack/{team}/{_word(fields, 'trigger_id', _TRIGGER)}/{user_id}",
        user_id=user_id,
        channel=_word(fields, "channel_id", _CHANNEL),
        text=text.strip()[:_MOST_WORDS],
        team_id=team,
    )


def envelope_of(message: object) -> Envelope | None:
    """Reads an envelope; None for messages about the connection itself: hello and disconnect."""
    fields = _object(message)
    if "envelope_id" not in fields and fields.get("type") in {"hello", "disconnect"}:
        return None
    return Envelope(_word(fields, "envelope_id", _ENVELOPE), str(fields.get("type")), fields.get("payload"))


def _form(body: bytes) -> dict[str, str]:
    pairs = parse_qsl(
        body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_FIELDS
    )
    form = dict(pairs)
    if len(form) != len(pairs):
        raise ValueError("a field is given twice")
    return form


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a part that must be an object is not one")
    return value


def _word(fields: Mapping[str, Any], name: str, shape: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not shape.fullmatch(value):
        raise ValueError(f"{name} is missing or malformed")
    return value


def _team(fields: Mapping[str, Any]) -> str:
    """The workspace's id; the organisation's where the app is installed for all of one, and `team` is null."""
    return _word(_object(fields.get("team") or fields.get("enterprise")), "id", _TEAM)
