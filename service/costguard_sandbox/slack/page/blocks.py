"""Block Kit and Slack's markup (https://docs.slack.dev/messaging/formatting-message-text) as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Any
from zoneinfo import ZoneInfo

import orjson

EMOJI = {
    "+1": "👍", "alarm_clock": "⏰", "arrow_forward": "▶️", "bar_chart": "📊", "battery": "🔋", "bell": "🔔",
    "black_square_for_stop": "⏹️", "bulb": "💡", "calendar": "📅", "chart_with_downwards_trend": "📉",
    "chart_with_upwards_trend": "📈", "computer": "💻", "credit_card": "💳", "desktop_computer": "🖥️",
    "dollar": "💵", "double_vertical_bar": "⏸️", "eyes": "👀", "fire": "🔥", "gear": "⚙️", "ghost": "👻",
    "hand": "✋", "heavy_check_mark": "✔️", "hourglass": "⌛", "hourglass_flowing_sand": "⏳",
    "information_source": "ℹ️", "key": "🔑", "large_blue_circle": "🔵", "large_green_circle": "🟢",
    "large_orange_circle": "🟠", "large_yellow_circle": "🟡", "link": "🔗", "lock": "🔒", "loudspeaker": "📢",
    "mag": "🔍", "memo": "📝", "money_with_wings": "💸", "moneybag": "💰", "mute": "🔇", "no_bell": "🔕",
    "no_entry": "⛔", "octagonal_sign": "🛑", "pushpin": "📌", "question": "❓", "rainbow": "🌈",
    "raised_hand": "✋", "raising_hand": "🙋", "red_circle": "🔴", "repeat": "🔁", "robot_face": "🤖",
    "rocket": "🚀", "rotating_light": "🚨", "seedling": "🌱", "shield": "🛡️", "sleeping": "😴",
    "snowflake": "❄️", "sos": "🆘", "spiral_calendar_pad": "🗓️", "stopwatch": "⏱️", "tada": "🎉",
    "telescope": "🔭",
    "timer_clock": "⏲️", "trophy": "🏆", "warning": "⚠️", "wastebasket": "🗑️", "wave": "👋",
    "white_check_mark": "✅", "white_circle": "⚪", "wrench": "🔧", "x": "❌", "zap": "⚡", "zzz": "💤",
}  # fmt: skip


_EMPTY = ("input", "img", "br", "hr", "meta", "link")


_PIECES = re.compile(r"```(?P<block>.+?)```|`(?P<code>[^`\n]+)`|<(?P<link>[^<>\n]+)>|:(?P<emoji>[a-z0-9_+-]+):", re.S)
_STYLES = (("*", "strong"), ("_", "em"), ("~", "s"))
_PLACE = re.compile("\x00(\\d+)\x00")
Block = Mapping[str, Any]


class Html(str):
    """Escaped HTML."""

    __slots__ = ()


def el(tag: str, *children: object, **attributes: str | bool | None) -> Html:
    """`el("div", name, cls="who")`. None and False leave an attribute out; `_` in its name becomes `-`."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if tag in _EMPTY:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: object) -> Html:
    return Html("".join(_piece(child) for child in children))


def _piece(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, list | tuple):
        return join(*child)
    return escape(str(child))


def _attribute(key: str, value: object) -> str:
    name = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader and the current time, for mentions and local dates."""

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
    """Lines with breaks, except next to a quote, which is a block."""
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


def rendered(blocks: Any, reader: Reader, errors: Mapping[str, str] | None = None) -> Html:
    """Blocks in order; `errors` appear under the inputs of a modal, by block id."""
    return join(*(_block(block, reader, errors or {}) for block in blocks))


def _block(block: Block, reader: Reader, errors: Mapping[str, str]) -> Html:
    if block["type"] == "input":
        return _input(block, reader, errors.get(block["block_id"], ""))
    return _BLOCKS[block["type"]](block, reader)


def _section(block: Block, reader: Reader) -> Html:
    text = el("div", text_object(block["text"], reader), cls="text") if "text" in block else None
    fields = [el("div", text_object(one, reader), cls="field") for one in block.get("fields", ())]
    accessory = block.get("accessory")
    return el(
        "div",
        el("div", text, el("div", fields, cls="fields") if fields else None, cls="grow"),
        el("div", _element(accessory, block, reader), cls="accessory") if accessory else None,
        cls="block section",
    )


def _header(block: Block, reader: Reader) -> Html:
    return el("h3", text_object(block["text"], reader), cls="block header")


def _divider(_block: Block, _reader: Reader) -> Html:
    return el("hr", cls="block divider")


def _context(block: Block, reader: Reader) -> Html:
    return el("div", [el("span", _context_piece(one, reader)) for one in block["elements"]], cls="block context")


def _context_piece(piece: Block, reader: Reader) -> Html:
    return plain_text(f"[{piece['alt_text']}]") if piece["type"] == "image" else text_object(piece, reader)


def _actions(block: Block, reader: Reader) -> Html:
    return el("div", [_element(one, block, reader) for one in block["elements"]], cls="block actions")


def _image(block: Block, _reader: Reader) -> Html:
    """Shows only the image's description: the page loads nothing from other servers."""
    return el("div", f"Image: {block['alt_text']}", cls="block image")


def _markdown(block: Block, _reader: Reader) -> Html:
    return el("div", block["text"], cls="block markdown")


_BLOCKS: Mapping[str, Callable[[Block, Reader], Html]] = {
    "section": _section,
    "header": _header,
    "divider": _divider,
    "context": _context,
    "actions": _actions,
    "image": _image,
    "markdown": _markdown,
}


def _element(element: Block, block: Block, reader: Reader) -> Html:
    marks: dict[str, str | bool | None] = {
        "data_action": element.get("action_id", ""),
        "data_block": block.get("block_id", ""),
        "data_confirm": _confirm(element.get("confirm"), reader),
    }
    if element["type"] == "image":
        return el("div", element.get("alt_text", ""), cls="image")
    if element["type"] == "button":
        style = element.get("style", "")
        label = element.get("accessibility_label")
        return el(
            "button",
            text_object(element["text"], reader),
            type="button",
            cls=f"button {style}".strip(),
            data_url=element.get("url"),
            aria_label=label,
            **marks,
        )
    if "options" in element:
        first = el("option", _label(element), value="", selected=True, disabled=True)
        return el("select", first, _options(element, reader), cls="menu", aria_label=_label(element), **marks)
    return el("span", f"({element['type']})", cls="unknown")


def _label(element: Block) -> str:
    return str((element.get("placeholder") or {}).get("text") or "More …")


def _options(element: Block, reader: Reader) -> list[Html]:
    chosen = (element.get("initial_option") or {}).get("value")
    return [
        el("option", text_object(one["text"], reader), value=one["value"], selected=one["value"] == chosen)
        for one in element["options"]
    ]


def _confirm(given: Any, reader: Reader) -> str | None:
    """The confirmation dialog as JSON, with escaped texts."""
    if not given:
        return None
    parts = {key: str(text_object(given[key], reader)) for key in ("title", "text", "confirm", "deny")}
    return orjson.dumps({**parts, "style": given.get("style", "primary")}).decode()


def _input(block: Block, reader: Reader, error: str) -> Html:
    element = block["element"]
    key = {"data_input": element["action_id"], "data_block": block["block_id"], "data_type": element["type"]}
    initial = str(element.get("initial_value", ""))
    hint = (element.get("placeholder") or {}).get("text")
    if "options" in element:
        field = el("select", _options(element, reader), **key)
    elif element["type"] == "plain_text_input" and element.get("multiline"):
        field = el("textarea", initial, placeholder=hint, rows="4", **key)
    else:
        kinds = {"number_input": "number", "datepicker": "date", "timepicker": "time"}
        field = el("input", type=kinds.get(element["type"], "text"), value=initial, placeholder=hint, **key)
    optional = el("small", " (optional)") if block.get("optional") else None
    return el(
        "label",
        el("span", text_object(block["label"], reader), optional, cls="label"),
        field,
        el("small", text_object(block["hint"], reader)) if "hint" in block else None,
        el("span", error, cls="error") if error else None,
        cls="block input",
    )
