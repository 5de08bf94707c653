"""People who read what they are sent, and press a button now and then, some of them wrongly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlencode

import orjson

from costguard_sandbox.slack import interactions
from costguard_sandbox.slack.access import SIGNING_SECRET, SlackError
from costguard_sandbox.slack.blocks import interactive
from costguard_sandbox.slack.interactions import signed_headers
from costguard_sandbox.slack.model import Message
from costguard_sandbox.slack.workspace import Workspace

_MINUTE = timedelta(minutes=1)
# How often a message is answered with what; silence is the rest.
_HABITS: Mapping[str, float] = {
    "keep:4": 0.08,
    "keep": 0.04,
    "keep:168": 0.15,
    "stop": 0.05,
    "disown": 0.02,
    "claim": 0.12,
}

TakesSigned = Callable[[Mapping[str, str], bytes], int]


@dataclass(frozen=True, slots=True)
class Meant:
    """A press that a person means to make, and its moment."""

    at: datetime
    user: str
    message: Message
    action: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """A press that the guard answered well."""

    at: datetime
    key: str
    action: str


@dataclass
class People:
    workspace: Workspace
    lot: Callable[..., random.Random]  # draws for what is named
    habits: Mapping[str, float] | None = None
    thinks: timedelta = 600 * _MINUTE  # before a press, at most
    meant: list[Meant] = field(default_factory=list)
    pressed: list[Pressed] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _read: int = 0
    _serial: int = 0

    def read(self) -> None:
        """Reads what was written since they last looked."""
        for message, version in self.workspace.record[self._read :]:
            if version is message.versions[0] and version.metadata and not message.ephemeral_to:
                self._consider(message)
        self._read = len(self.workspace.record)

    def next_at(self) -> datetime | None:
        return min((meant.at for meant in self.meant), default=None)

    def due(self) -> list[Meant]:
        now = self.workspace.now
        due = [click for click in self.meant if click.at <= now]
        self.meant = [click for click in self.meant if click.at > now]
        return due

    def answer_now(self, lot: random.Random, chance: float) -> None:
        """Each message that was written lately is answered at once with this chance, in the ways that people have."""
        habits, now = self.habits or _HABITS, self.workspace.now
        for message, version in self.workspace.record if chance else ():
            if version is not message.versions[0] or message.ephemeral_to or now - version.at > 120 * _MINUTE:
                continue
            offered = [str(element["action_id"]) for _, element in interactive(message.blocks)]
            ways = [action for action in offered if action in habits]
            if ways and lot.random() < chance:
                self.meant.append(Meant(now, self._reader(message, lot), message, lot.choice(ways)))

    def press(self, meant: Meant, take: TakesSigned) -> None:
        """Once, or twice in a row, or with what Slack delivers once more; the same press again after no answer."""
        try:
            headers, body, key = signed(self.workspace, meant, self._serial + 1)
        except SlackError:
            self.counts["too late: the button was gone"] += 1
            return
        self._serial += 1
        chance = self.lot("press", key)
        times = 2 if chance.random() < 0.15 else 1
        for _ in range(times):
            status = take(headers, body)
            if status == 200:
                self.pressed.append(Pressed(self.workspace.now, key, meant.action))
                self.counts[f"pressed {meant.action.partition(':')[0]}"] += 1
            elif times == 1 or status != 401:  # its signature is good for once
                self.counts["not answered"] += 1
        if chance.random() < 0.1:
            impatient = Meant(self.workspace.now + _MINUTE, meant.user, meant.message, meant.action)
            self.meant.append(impatient)

    def _consider(self, message: Message) -> None:
        workspace = self.workspace
        chance = self.lot("reader", message.channel, message.versions[0].at, message.text)
        offered = [str(element["action_id"]) for _, element in interactive(message.blocks)]
        if not offered:
            return
        user = self._reader(message, chance)
        for action in offered:
            if chance.random() < (self.habits or _HABITS).get(action, 0):
                at = workspace.now + _MINUTE + chance.random() * self.thinks
                self.meant.append(Meant(at, user, message, action))
                return

    def _reader(self, message: Message, lot: random.Random) -> str:
        members = sorted(self.workspace.channels[message.channel].members)
        return lot.choice([self.workspace.users[one] for one in members if not self.workspace.users[one].is_bot]).name


def signed(workspace: Workspace, meant: Meant, serial: int) -> tuple[dict[str, str], bytes, str]:
    """Signs a press as Slack would send it, about the message as it is now; `serial` tells it from others.

    Raises SlackError where there is none.
    """
    person = workspace.user(meant.user)
    channel, message = workspace.seen_by(person, meant.message.channel, meant.message.ts)
    matching = [item for item in interactive(message.blocks) if item[1]["action_id"] == meant.action]
    if not matching:
        raise SlackError("action_not_found")
    block, element = matching[0]
    now = workspace.now
    pressed_at = f"{int(now.timestamp())}.{serial:06d}"
    ids = interactions.InteractionIds(f"1.{serial}", "", pressed_at)
    payload = interactions.block_actions(person, channel, message, block, element, None, ids)
    body = urlencode({"payload": orjson.dumps(payload).decode()}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    headers |= signed_headers(SIGNING_SECRET, body, int(now.timestamp()))
    team = payload["team"]["id"]
    return headers, body, f"slack/{team}/{channel.id}/{message.ts}/{pressed_at}/{person.id}"
