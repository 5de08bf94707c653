"""Block Kit elements for messages. Texts are escaped before they come here: see `text.py`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from costguard.model.delivery.message import Button, JobButton
from costguard.model.reminder import RequestKind, Subject
from costguard.slack.payloads import pack, pack_job
from costguard.slack.text import length, plain

Block = dict[str, Any]

MOST_BLOCKS = 50
# Undocumented; observed at https://github.com/slackapi/bolt-js/issues/2509, where 13,200 was refused.
MOST_TEXT = 12_500
_MOST_SECTION = 3000
_MOST_FIELD = 2000
_FIELDS = 10
_BUTTONS = 25
_STOP_EFFECT = (
    "will be shut down now. Its disks stay and are still billed; data in memory and on local SSDs is lost. "
    "You can start it again at any time."
)


def mrkdwn(text: str) -> Block:
    """`verbatim`: Slack must not turn bare addresses, channel names or mentions into links by itself."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": text, "emoji": True}}


def section(text: str) -> Block:
    assert length(text) <= _MOST_SECTION
    return {"type": "section", "text": mrkdwn(text)}


def fields(pairs: Sequence[tuple[str, str]]) -> list[Block]:
    """Titled values side by side; more than ten make another block."""
    texts = [f"*{title}*\n{value}" for title, value in pairs]
    assert all(length(text) <= _MOST_FIELD for text in texts)
    return [
        {"type": "section", "fields": [mrkdwn(text) for text in texts[first : first + _FIELDS]]}
        for first in range(0, len(texts), _FIELDS)
    ]


def context(*parts: str) -> Block:
    """Makes a small grey line; empty parts are left out."""
    return {"type": "context", "elements": [mrkdwn("  ·  ".join(part for part in parts if part))]}


def divider() -> Block:
    return {"type": "divider"}


def actions(buttons: Sequence[Button], subject: Subject, due_at: datetime | None, name: str, suffix: str = "") -> Block:
    """`suffix` keeps action ids apart where one message has several rows of buttons."""
    shown: dict[str, Block] = {}
    for button in buttons[:_BUTTONS]:
        made = _button(button, subject, due_at, name)
        made["action_id"] += suffix
        shown.setdefault(made["action_id"], made)
    return {"type": "actions", "elements": list(shown.values())}


def job_actions(buttons: Sequence[JobButton]) -> Block:
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": f"job:{button.choice.value}",
                "text": {"type": "plain_text", "text": plain(button.label, 75), "emoji": True},
                "value": pack_job(button.job, button.choice),
            }
            for button in buttons
        ],
    }


def _button(button: Button, subject: Subject, due_at: datetime | None, name: str) -> Block:
    made: Block = {
        "type": "button",
        "action_id": f"{button.kind.value}:{button.hours}" if button.hours is not None else button.kind.value,
        "text": {"type": "plain_text", "text": plain(button.label, 75) or button.kind.value, "emoji": True},
        "value": pack(subject, button.kind, button.hours, due_at),
    }
    if button.is_danger:
        made["style"] = "danger"
    if button.kind is RequestKind.STOP:
        made["confirm"] = {
            "title": _words(f"Stop {plain(name, 80)}?"),
            "text": _words(plain(button.effect, 300) or f"{plain(name, 80)} {_STOP_EFFECT}"),
            "confirm": _words("Stop it"),
            "deny": _words("Leave it running"),
            "style": "danger",
        }
    return made


def _words(text: str) -> Block:
    return {"type": "plain_text", "text": text}


def clipped(blocks: Sequence[Block], rest: str) -> list[Block]:
    """Returns as many blocks as one message may hold; `rest` is the last line where some were left out."""
    if len(blocks) <= MOST_BLOCKS and sum(map(seen, blocks)) <= MOST_TEXT:
        return list(blocks)
    kept, left = list[Block](), MOST_TEXT - length(rest)
    for block in blocks[: MOST_BLOCKS - 1]:
        left -= seen(block)
        if left < 0:
            break
        kept.append(block)
    return [*kept, context(rest)]


def seen(value: Any) -> int:
    """The length of a block's text, as it counts towards the bound of a message."""
    if isinstance(value, list):
        return sum(map(seen, value))
    if not isinstance(value, dict):
        return 0
    text = value.get("text")
    return (length(text) if isinstance(text, str) else 0) + sum(map(seen, value.values()))
