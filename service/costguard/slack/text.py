"""Escapes and shortens texts from outside for Slack's markup.

Slack's markup has no escape for its formatting signs, so those that would take effect become signs that look alike.
Lengths are counted after escaping, and as Slack's own code counts them: what lies beyond U+FFFF counts twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import urlsplit

from costguard.model.moments import utc_text

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_PLAIN = {"<": "‹", ">": "›"}  # plain_text knows no markup, and it is not told whether entities are decoded in it
# Letters that show nothing: they would let two names look the same.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_LOOK_ALIKES = {"*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ"}
_FORMATTING = re.compile(r"(?<!\w)[*_~]|[*_~](?!\w)|`")  # inside a word they mean nothing to Slack
_EMOJI = re.compile(r":(?=[\w+'-]+:)")
_BROADCAST = re.compile(r"(?<!\w)@(?=here|channel|everyone|group)", re.IGNORECASE)
_QUOTE = re.compile(r"^(\s*)>", re.MULTILINE)
_ID = re.compile(r"[UW][A-Z0-9]{2,20}")


def line(text: str, most: int = 200) -> str:
    """Writes a line of mrkdwn that shows `text` and does nothing else."""
    return _escaped(_tamed(_cut(_one_line(text, most), most, _ENTITIES)), _ENTITIES)


def marked(text: str, most: int = 1000) -> str:
    """Writes as `line` does, but text between two backticks is shown as code, such as a command to copy."""
    parts = _cut(_one_line(text, most), most, _ENTITIES).split("`")
    if len(parts) % 2 == 0:  # one without its other half
        return line(text, most)
    return "`".join(_escaped(part if index % 2 else _tamed(part), _ENTITIES) for index, part in enumerate(parts))


def lines(text: str, most: int = 2900) -> str:
    """The same for a text that may have several lines."""
    kept = "\n".join(" ".join(one.split()) for one in _visible(text, most).split("\n"))
    short = _cut(re.sub(r"\n{3,}", "\n\n", kept).strip(), most, _ENTITIES)
    return _escaped(_tamed(short), _ENTITIES)


def code(text: str, most: int = 2000) -> str:
    """A block of what a program printed, of which the end counts; "" where it printed nothing.

    Within it Slack heeds neither formatting nor emoji nor names, so that it can be shown as it is.
    """
    near = _LINE_ENDS.sub("\n", text[-8 * most :]).expandtabs(4).replace("`", _LOOK_ALIKES["`"])
    kept = "".join(_shown(char) if char.isprintable() or char == "\n" else "\ufffd" for char in near).strip("\n")
    first, left = len(kept), most
    while first and (left := left - length(_ENTITIES.get(kept[first - 1], kept[first - 1]))) >= 0:
        first -= 1
    return f"```\n{'…' if first else ''}{_escaped(kept[first:], _ENTITIES)}\n```" if kept.strip() else ""


def plain(text: str, most: int) -> str:
    """Writes a text for plain_text objects: headers, buttons and questions."""
    return _escaped(_EMOJI.sub("∶", _cut(_one_line(text, most), most, _PLAIN)), _PLAIN)


def mention(user_id: str) -> str:
    """Empty for what is no id of a person."""
    return f"<@{user_id}>" if _ID.fullmatch(user_id) else ""


def link(url: str, label: str) -> str:
    """Empty for what is no plain web address. The label is ours."""
    if len(url) > 1000 or re.search(r"[\s<>|\x00-\x20\x7f-\U0010ffff]", url):
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    return f"<{url.replace('&', '&amp;')}|{label}>"


def moment(at: datetime) -> str:
    """Formats a moment in the reader's own time zone: `today at 2:02 PM`."""
    utc = at.astimezone(UTC)
    return f"<!date^{int(utc.timestamp())}^{{date_short_pretty}} at {{time}}|{utc_text(at)}>"


def ago(at: datetime) -> str:
    """`12 hours ago`, as of when it is read."""
    utc = at.astimezone(UTC)
    return f"<!date^{int(utc.timestamp())}^{{ago}}|{utc_text(at)}>"


def length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _one_line(text: str, most: int) -> str:
    return " ".join(_visible(text, most).split())


def _visible(text: str, most: int) -> str:
    """Replaces characters that hide, steer or turn the text around them by a mark. Bounded, whatever came in."""
    near = text if len(text) <= 8 * most else f"{text[: 8 * most]}…"
    return "".join(map(_shown, _LINE_ENDS.sub("\n", near)))


def _shown(char: str) -> str:
    return char if (char.isprintable() or char.isspace()) and char not in _BLANK else "\ufffd"


def _tamed(text: str) -> str:
    text = _FORMATTING.sub(lambda match: _LOOK_ALIKES[match[0]], text)
    text = _QUOTE.sub(r"\1›", _EMOJI.sub("∶", text))
    return _BROADCAST.sub("＠", text)


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(char, char) for char in text)


def _cut(text: str, most: int, signs: dict[str, str]) -> str:
    """Returns as much of it as is no longer than `most` once escaped."""
    lengths = [length(signs.get(char, char)) for char in text]
    if sum(lengths) <= most:
        return text
    kept, used = 0, 1  # room for the ellipsis
    for one in lengths:
        used += one
        if used > most:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…"
