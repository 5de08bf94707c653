"""Three days in Slack in the product's own words: reminders, answers, refusals, a list, a budget and digests."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs
from tests.golden.databases import template
from tests.scenario.slack_story import DAY, HOUR, MINUTE, MONDAY, Story, buttons, shown, story

from costguard_sandbox.slack.access import SlackError
from costguard_sandbox.slack.model import Message

_PEOPLE = ("ana", "ben", "chiara", "dana")
_FIGURES = (
    (re.compile(r"<!date\^\d+\^[^|]*\|([^>]*)>"), r"\1"),
    (re.compile(r"\$\d[\d,.]*\d"), "$..."),
    (re.compile(r"\(\d+%\)"), "(...%)"),
    (re.compile(r"\b(\d\d):\d\d\b"), r"\1:.."),
    (re.compile(r"(?<=\d h) \d+ min\b|\b\d+ min(?: \d+ s)?\b|\b\d+ s\b"), " ..."),
)
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "access": {"operators": ["ben@example.com"], "admins": ["chiara@example.com"]},
    "teams": {"vision": {"members": ["ana@example.com", "ben@example.com"], "operators": ["ben@example.com"]}},
    "presets": {"t4": {"limit": "8h", "remind_every": "1h", "keeps": 1, "when_unanswered": "stop", "stop_after": 2}},
    "budgets": {"day": {"limit": 10, "period": "day", "contact": "chiara@example.com"}},
    "reminders": {"daily_digest": "09:00", "weekly_digest": "mon 09:00", "storage_after": "1d"},
}


def text() -> str:
    with tempfile.TemporaryDirectory() as folder, capture_logs():
        path = shutil.copy(template(), folder)
        with story(f"sqlite:///{path}", MONDAY, **_SETTINGS) as day:
            _live(day)
            places = ["#gpu-costs", *_PEOPLE]
            return "\n".join(line for place in places for line in _read(day, place))


def _live(day: Story) -> None:
    day.vm("trainer")
    day.vm("orphan", owner="", user="builder@acme-training.iam.gserviceaccount.com")
    day.vm("ignored", owner="dana", user="dana@example.com")
    day.later(8 * HOUR)
    day.press(day.last("ana"), "keep:4")
    for person, action in (("dana", "stop"), ("ben", "claim"), ("chiara", "claim")):
        with suppress(SlackError):  # the button is gone
            day.press(_of(day, "orphan"), action, by=person)
    for words in ("", "all", "help", "everything"):
        day.world.slack.interactions.command("ben", "#gpu-costs", words)
    day.later(6 * HOUR, every=HOUR)
    day.press(day.last("ana"), "stop")
    day.later(5 * MINUTE, every=MINUTE)
    day.later(2 * DAY, every=4 * HOUR)


def _read(day: Story, place: str) -> Iterator[str]:
    yield f"== {place if place.startswith('#') else f'direct messages of {place}'}\n"
    names = {user.id: name for name in _PEOPLE for user in [day.world.slack.user(name)]}
    for message in day.world.slack.messages(day.place(place), ephemeral=True):
        only = f", only {names[message.ephemeral_to]} sees it" if message.ephemeral_to else ""
        for number in range(1, len(message.versions) + 1):
            version = replace(message, versions=message.versions[:number])
            yield f"-- {'reply' if message.thread_ts else 'message'}{only}{', edited' if number > 1 else ''}"
            short = "" if version.text == shown(version) else f"notification: {version.text}\n"
            yield _worded(f"{short}{shown(version)}", names)
            yield "".join(f"[{_worded(label, {})}] {action}\n" for action, label in buttons(version).items())


def _worded(words: str, names: Mapping[str, str]) -> str:
    """Writes names for ids, and leaves out what a second more or less on the moved clock changes."""
    for user_id, name in names.items():
        words = words.replace(user_id, name)
    for pattern, replacement in _FIGURES:
        words = pattern.sub(replacement, words)
    return words


def _of(day: Story, vm: str) -> Message:
    """The latest message in the channel that names the VM and has buttons."""
    messages = day.world.slack.messages("#gpu-costs")
    return [message for message in messages if vm in shown(message) and buttons(message)][-1]
