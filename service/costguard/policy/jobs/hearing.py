"""What an agent tells -> what the guard knows of its attempt. The words are those of the agent's PROTOCOL.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import isfinite

from costguard.model.attempt import AttemptState, Exit, Heard

MOST_OUTPUT = 32 << 10  # bytes; the end of it counts
MOST_MACHINE = 16 << 10  # characters
_MOST_NUMBER = 2**63 - 1  # what the database holds
_MOST_ERROR = 2000  # characters
_SHORT = 100
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# News that somebody waits for; heartbeats are none.
_NEWS = frozenset({"start", "notice", "stopping", "exit"})

_AWAITS_START = frozenset({AttemptState.BOOTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that an agent told. What a later agent adds to the fields is passed over."""

    seq: int
    kind: str
    at: datetime  # by the VM's clock
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """What is known after listening."""

    heard: Heard
    state: AttemptState | None = None  # where this takes the attempt; None leaves it where it is
    started_run: bool = False  # the present run was told to have begun
    is_news: bool = False


def listen(before: Heard, state: AttemptState, events: Sequence[Event], now: datetime, sent_at: datetime) -> Told:
    """Take in what was not told before, in its order.

    Moments are the guard's: `sent_at` is the VM's for `now`, so that a clock that is wrong there misleads nobody here.
    """
    shift = now - sent_at
    told = Told(replace(before, at=now))
    for event in sorted(events, key=lambda each: each.seq):
        if event.seq > told.heard.accepted_through:
            told = _take(replace(told, heard=replace(told.heard, accepted_through=event.seq)), event, now, shift)
    runs = told.started_run and told.heard.exit is None
    return replace(told, state=AttemptState.RUNNING if runs and state in _AWAITS_START else None)


def _take(told: Told, event: Event, now: datetime, shift: timedelta) -> Told:
    run = _number(event.fields.get("run"))
    if run is None or run < told.heard.run:
        return told  # of a later protocol, or of a run that is over
    if run > told.heard.run:
        known = told.heard
        fresh = Heard(at=known.at, run=run, accepted_through=known.accepted_through, image_digest=known.image_digest)
        told = replace(told, heard=fresh, started_run=False)
    heard, fields = told.heard, event.fields

    def moment(of: object) -> datetime:
        """By the guard's clock, and never to come."""
        return min(now, (_moment(of) or event.at) + shift)

    match event.kind:
        case "boot":
            heard = replace(heard, booted_at=heard.booted_at or moment(event.at))
        case "start":
            heard = replace(heard, started_at=heard.started_at or moment(fields.get("started_at")))
        case "image":
            heard = replace(heard, image_digest=_digest(fields.get("digest")) or heard.image_digest)
        case "notice" if fields.get("what") == "preemption":
            heard = replace(heard, noticed_at=heard.noticed_at or moment(event.at))
        case "notice" if fields.get("what") == "maintenance":
            heard = replace(heard, maintenance_at=heard.maintenance_at or moment(event.at))
        case "exit" if heard.exit is None:
            heard = replace(heard, exit=_exit(fields, moment(fields.get("ended_at"))))
    step = _number(fields.get("step"))
    if step is not None and step != heard.step:
        heard = replace(heard, step=step, step_at=moment(fields.get("step_at")))
    if (output := _printed(fields.get("output"))) is not None:
        heard = replace(heard, output=_end_of(output))
    if isinstance(machine := fields.get("machine"), Mapping):
        heard = replace(heard, machine=_machine(machine))
    return replace(
        told,
        heard=heard,
        started_run=told.started_run or event.kind == "start",
        is_news=told.is_news or event.kind in _NEWS,
    )


def _exit(fields: Mapping[str, object], at: datetime) -> Exit:
    told = fields.get("machine")
    machine: Mapping[str, object] = told if isinstance(told, Mapping) else {}
    return Exit(
        reason=_text(fields.get("reason"), _SHORT) or "cut_off",
        at=at,
        code=_number(fields.get("code")),
        signal=_number(fields.get("signal")),
        error=_text(fields.get("error"), _MOST_ERROR),
        asked=_text(fields.get("asked"), _SHORT),
        repeats=fields.get("repeats") is True,
        disk_free=_number(machine.get("disk_free_bytes")),
        disk_mount=_text(machine.get("disk_mount"), _SHORT),
    )


def _digest(value: object) -> str:
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else ""


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_NUMBER else None


def _text(value: object, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None or found.tzinfo is None or not 1970 <= found.year <= 2999:
        return None
    return found.astimezone(UTC)


def _printed(output: object) -> str | None:
    """It is told line by line."""
    if isinstance(output, list):
        return "\n".join(line for line in output if isinstance(line, str))
    return output if isinstance(output, str) else None


def _end_of(output: str) -> str:
    """A character of which only a part would fit is left out."""
    encoded = output.encode("utf-8", "replace")
    return encoded[-MOST_OUTPUT:].decode("utf-8", "ignore")


def _machine(told: Mapping[str, object]) -> dict[str, object]:
    """Figures, and lists of things with figures, as for GPUs. What is nested deeper, or too much, is left out."""
    kept: dict[str, object] = {}
    size = 0
    for name, value in told.items():
        plain = [_flat(each) for each in value if isinstance(each, Mapping)] if isinstance(value, list) else value
        size += len(name) + len(repr(plain))
        if size <= MOST_MACHINE and (isinstance(plain, list) or _is_plain(plain)):
            kept[name] = plain
    return kept


def _flat(told: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in told.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
