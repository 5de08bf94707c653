"""Slack's text markup as HTML: https://docs.slack.dev/messaging/formatting-message-text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from zoneinfo import ZoneInfo

from costguard_sandbox.slack.page.emoji import EMOJI
from costguard_sandbox.slack.page.html import Html, el, join

_PIECES = re.compile(r"```(?P<block>.+?)```|`(?P<code>[^`\n]+)`|<(?P<link>[^<>\n]+)>|:(?P<emoji>[a-z0-9_+-]+):", re.S)
_STYLES = (("*", "strong"), ("_", "em"), ("~", "s"))
_PLACE = re.compile("\x00(\\d+)\x00")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and when: mentions, and dates in the reader's own time."""

    id: str
    now: datetime
    tz: str
    names: Mapping[str, str]  # of people and channels, by id

    def local(self, moment: datetime) -> datetime:
        return moment.astimezone(ZoneInfo(self.tz))


def mrkdwn(text: str, reader: Reader) -> Html:
    """Nothing of the text reaches the page unescaped; a link needs http, https or mailto."""
    kept: list[Html] = []

    def keep(piece: Html) -> str:
        kept.append(piece)
        return f"\x00{len(kept) - 1}\x00"

    def replaced(match: re.Match[str]) -> str:
        if (block := match["block"]) is not None:
            return keep(el("pre", _plain(block.strip("\n"))))
        if (code := match["code"]) is not None:
            return keep(el("code", _plain(code)))
        if (name := match["emoji"]) is not None:
            return keep(_emoji(name)) if name in EMOJI else match[0]
        return keep(_link(match["link"], reader))

    marked = _PIECES.sub(replaced, text.replace("\x00", ""))
    done = escape(_plain(marked))
    for sign, tag in _STYLES:
        one = re.escape(sign)
        done = re.sub(rf"(?<![\w{one}]){one}(?=\S)([^{one}\n]+?)(?<=\S){one}(?![\w{one}])", rf"<{tag}>\1</{tag}>", done)
    lines = [_quoted(line) for line in done.split("\n")]
    return Html(_PLACE.sub(lambda match: kept[int(match[1])], _joined(lines)))


def plain_text(text: str) -> Html:
    """A plain_text object: emoji names are replaced, nothing else is."""
    pieces = re.split(r"(:[a-z0-9_+-]+:)", text)
    return join(*(_emoji(one.strip(":")) if one.strip(":") in EMOJI and one[:1] == ":" else one for one in pieces))


def text_object(value: object, reader: Reader) -> Html:
    """A text object of Block Kit, of either type."""
    if not isinstance(value, Mapping):
        return Html()
    text = str(value.get("text", ""))
    return mrkdwn(text, reader) if value.get("type") == "mrkdwn" else plain_text(text)


def clock_time(moment: datetime) -> str:
    return f"{moment.hour % 12 or 12}:{moment:%M %p}"


def day_name(day: datetime, today: datetime) -> str:
    """`Today`, `Yesterday`, or `Wednesday, September 23rd`."""
    distance = (today.date() - day.date()).days
    near = {0: "Today", 1: "Yesterday", -1: "Tomorrow"}.get(distance)
    return near or f"{day:%A, %B} {_ordinal(day.day)}"


def _plain(text: str) -> str:
    """Senders write the three signs of the markup as entities."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _emoji(name: str) -> Html:
    return el("span", EMOJI[name], cls="emoji", title=f":{name}:")


def _quoted(line: str) -> str:
    return f"<blockquote>{line[4:].lstrip()}</blockquote>" if line.startswith("&gt;") else line


def _joined(lines: list[str]) -> str:
    """Line breaks, but none next to a quote, which is a line of its own."""
    text = "<br>".join(lines)
    return text.replace("</blockquote><br>", "</blockquote>").replace("<br><blockquote>", "<blockquote>")


def _link(inside: str, reader: Reader) -> Html:
    target, _, label = inside.partition("|")
    if target[:1] == "@":
        name = reader.names.get(target[1:], label or target[1:])
        return el("span", f"@{name}", cls="mention me" if target[1:] == reader.id else "mention")
    if target[:1] == "#":
        return el("span", f"#{label or reader.names.get(target[1:], target[1:])}", cls="mention")
    if target.startswith("!date^"):
        return _date(target, _plain(label), reader)
    if target[:1] == "!":
        return el("span", f"@{label or target[1:].partition('^')[0]}", cls="mention me")
    if target.startswith(("http://", "https://", "mailto:")):
        shown = _plain(label or target.removeprefix("mailto:"))
        return el("a", shown, href=_plain(target), target="_blank", rel="noopener noreferrer")
    return join(f"<{_plain(inside)}>")


def _date(target: str, fallback: str, reader: Reader) -> Html:
    """`<!date^1758632400^{date_short} at {time}|fallback>` in the reader's time."""
    _, _, rest = target.partition("^")
    stamp, _, rest = rest.partition("^")
    form, _, link = rest.partition("^")
    if not re.fullmatch(r"\d{1,11}", stamp) or not form:
        return join(fallback)
    moment = datetime.fromtimestamp(int(stamp), ZoneInfo(reader.tz))
    text = re.sub(r"\{(\w+)\}", lambda match: _token(match[1], moment, reader.local(reader.now)) or match[0], form)
    shown = el("time", text, datetime=moment.isoformat(), title=f"{moment:%A, %d %B %Y, %H:%M %Z}")
    return el("a", shown, href=link, target="_blank", rel="noopener") if link.startswith("http") else shown


def _token(name: str, moment: datetime, now: datetime) -> str:
    near = {0: "today", 1: "yesterday", -1: "tomorrow"}.get((now.date() - moment.date()).days)
    forms: dict[str, Callable[[], str]] = {
        "date_num": lambda: f"{moment:%Y-%m-%d}",
        "date": lambda: f"{moment:%B} {_ordinal(moment.day)}, {moment.year}",
        "date_short": lambda: f"{moment:%b} {moment.day}, {moment.year}",
        "date_long": lambda: f"{moment:%A, %B} {_ordinal(moment.day)}, {moment.year}",
        "time": lambda: clock_time(moment),
        "time_secs": lambda: f"{moment.hour % 12 or 12}:{moment:%M:%S %p}",
        "ago": lambda: _ago(now - moment),
    }
    if name.endswith("_pretty"):
        return near or _token(name.removesuffix("_pretty"), moment, now)
    return forms[name]() if name in forms else ""


def _ago(gone: timedelta) -> str:
    seconds = abs(int(gone.total_seconds()))
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if number := seconds // size:
            words = f"{number} {unit}{'s' * (number > 1)}"
            return f"{words} ago" if gone > timedelta() else f"in {words}"
    return "just now"


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
