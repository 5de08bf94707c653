"""Brings every answer into lines of `key: value`, whether it came as JSON, XML, YAML, an exception or a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from costguard.credentials import masked

MOST_READ = 16 << 20  # bytes: more is no answer of an API
_MOST_PARSED = 4 << 20
_KEPT = 32 << 10  # characters of each end of a longer text: the error stands at one of them
_MOST_PARTS, _DEEPEST = 5_000, 60
_LONGEST_VALUE = 8_000
_SAID = 400  # characters
_LOOKED_THROUGH = 8_000  # for them, at each end

# What a caller asked for says nothing of why it was refused, and may name everything that could be refused.
_NOT_READ = frozenset({"request", "requestMetadata", "labels", "annotations", "requestAttributes", "http_request"})
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_CONTROL = re.compile(r"[^\S\n]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff│╵╷]")
_FOLDED = re.compile(r"\\\n\s{0,40}\\?")  # a long line of YAML
_ESCAPED_QUOTE = re.compile(r"\\{1,16}(?=[\"'])")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "`": "'"})
_ELEMENT = re.compile(r"<(\w{1,40})>([^<>]{0,2000})</\1>")
_IS_HTML = re.compile(r"\s{0,200}<(?:!doctype\s+html|html|head|body)", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,300})</title>", re.IGNORECASE)
_PAIR = re.compile(r"""key:\s*["']([\w.]{1,60})["']\s{1,20}value:\s*["']([^"'\n]{0,300})["']""")

STATUSES = {
    "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ABORTED": 409, "ALREADY_EXISTS": 409, "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499, "INTERNAL": 500, "UNKNOWN": 500, "DATA_LOSS": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}  # fmt: skip  # https://cloud.google.com/apis/design/errors#handling_errors
_RPC_CODES = {
    1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500,
    14: 503, 15: 500, 16: 401,
}  # fmt: skip
_STATUS = re.compile(
    r"""(?:\b(?:http)?error(?:\s|:|\scode\s|\sstatus\s){0,3}|\bexceptions?(?:\.\w{1,40})?[:=]\s?|\bstatus(?:\scode)?[:=\s]\s?
    |\bcode['"]?\s{0,3}[:=]\s{0,3}['"]?|exception:\s?|^\s{0,9}|\[|erroring\s)([1-5]\d\d)\b(?!\.\d)""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_RPC_CODE = re.compile(r"""\b(?:code['"]?\s{0,3}[:=]|error\scode)\s{0,3}(1[0-6]|[1-9])\b(?![.\d])""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is the normal form; `said` the service's own words in one line; `status` of HTTP, 0 where not given."""

    text: str
    said: str
    status: int
    is_page: bool = False  # of HTML: a proxy's, or a server's that stands before the API

    def value(self, name: str) -> str:
        """The first value of a field of this name; "" where there is none."""
        if whole := re.search(rf"^{name}: (.{{1,500}})$", self.text, re.MULTILINE):
            return whole[1]
        value = r"""(?:u?["']([^"'\n]{1,500})["']|([^\s"',;}\])]{1,500}))"""
        pattern = rf"""(?<![\w.]){name}["']?\s{{0,9}}[:=]\s{{0,9}}{value}"""
        match = re.search(pattern, self.text)
        return (match[1] or match[2]) if match is not None else ""


def unwrap(answer: bytes | str | Mapping[str, Any], status: int = 0) -> Answer:
    """Reads an answer in any form. What looks like a credential is gone from all that it returns."""
    parsed = answer if isinstance(answer, Mapping) else _parsed(answer)
    text = _text(answer) if parsed is None else ""
    if parsed is None and _IS_HTML.match(text):
        title = _TITLE.search(text)
        said = _line(masked(title[1])) if title is not None else "a page of HTML, and not an answer of the API"
        return Answer(said, said, status or _status(said), is_page=True)
    text = "\n".join(_lines(parsed)) if parsed is not None else _of_xml(text)
    text = masked(_plain(text))
    said = _message(parsed) if parsed is not None else ""
    said = _line(masked(_plain(said))) if said else _said_in(text)
    return Answer(text, said, status or _status(text))


def _of_xml(text: str) -> str:
    """Elements as lines. Of Google's services only Cloud Storage answers in XML."""
    lines = _ELEMENT.sub(r"\1: \2\n", text)
    return f"{lines}\nCloud Storage" if re.search(r"<Error>\s{0,9}<Code>", text) else lines


def _parsed(answer: bytes | str) -> Any | None:
    """The object that the answer is as a whole; None where it is something else."""
    if len(answer) > _MOST_PARSED:
        return None
    try:
        parsed = orjson.loads(answer)
    except (orjson.JSONDecodeError, UnicodeEncodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _text(answer: bytes | str | Mapping[str, Any]) -> str:
    if isinstance(answer, Mapping):
        return ""
    if isinstance(answer, str):
        return answer if len(answer) <= 2 * _KEPT else f"{answer[:_KEPT]}\n{answer[-_KEPT:]}"
    if len(answer) <= 2 * _KEPT:
        return answer.decode("utf-8", "replace")
    return f"{answer[:_KEPT].decode('utf-8', 'replace')}\n{answer[-_KEPT:].decode('utf-8', 'replace')}"


def _plain(text: str) -> str:
    """Escapes undone, as in JSON within a string, and nothing left that is not printed."""
    text = _CONTROL.sub(" ", _ANSI.sub("", text.encode("utf-8", "replace").decode())).translate(_QUOTES)
    if "\\" in text:
        text = _ESCAPED_QUOTE.sub("", _FOLDED.sub(" ", text))
    for _ in range(3):
        if "\\" not in text:
            break
        text = (
            text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").replace("\\/", "/").replace("\\\\", "\\")
        )
    pairs = "".join(f"\n{name}: {value}" for name, value in _PAIR.findall(text))
    return text + pairs


def _lines(parsed: Any) -> Iterator[str]:
    """Every value with its key, a level at a time, as far as an answer of an API goes."""
    level, parts = [("", parsed)], 0
    for _ in range(_DEEPEST):
        below: list[tuple[str, Any]] = []
        for name, value in level:
            parts += 1
            if parts > _MOST_PARTS:
                return
            if isinstance(value, Mapping):
                below += [(str(key)[:100], one) for key, one in value.items() if key not in _NOT_READ]
            elif isinstance(value, list | tuple):
                below += [(name, one) for one in value]
            elif value is not None and value != "":
                yield f"{name}: {_short(value)}"
        level = below


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 2 * _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} {text[-_LONGEST_VALUE:]}"


_MESSAGES = (
    "message",
    "error_description",
    "errorMessage",
    "statusMessage",
    "httpErrorMessage",
    "description",
    "detail",
)


def _message(parsed: Any) -> str:
    """The uppermost message in it, which is the service's own."""
    level, parts = [parsed], 0
    for _ in range(12):
        below: list[Any] = []
        for value in level:
            parts += 1
            if parts > 2000:
                return ""
            if isinstance(value, Mapping):
                for name in _MESSAGES:
                    if isinstance(message := value.get(name), str) and message.strip():
                        return _short(message)
                below += [one for key, one in value.items() if key not in _NOT_READ]
            elif isinstance(value, list | tuple):
                below += value[:100]
        level = [value for value in below if isinstance(value, Mapping | list | tuple)]
    if isinstance(parsed, Mapping) and isinstance(parsed.get("error"), str):
        return _short(parsed["error"])
    return ""


_IN_TEXT = (
    re.compile(r'returned "(.{3,2000}?)"(?:\.? Details|>|$)', re.DOTALL),
    re.compile(
        r"""["']?(?:Message|message|error_description|errorMessage|Description)["']?\s{0,9}[:=]\s{0,9}u?(["'])(.{3,2000}?)\1\s{0,9}[,}\n)]""",
        re.DOTALL,
    ),
    re.compile(
        r"(?:googleapi: )?Error \d{3}: (.{3,2000}?)(?:, [a-z][A-Za-z]{4,40}\.?)?(?:\n(?:Details|More details):|\n\n|$)",
        re.DOTALL,
    ),
    re.compile(r"^ERROR: \([\w.-]{1,100}\) (.{3,2000}?)(?:\n- '@type'|\n---|\n\n|$)", re.DOTALL | re.MULTILINE),
    re.compile(r"^\s{0,9}[Mm]essage: (.{3,2000}?)(?:\n[\w-]{1,40}:|\n\n|$)", re.DOTALL | re.MULTILINE),
    re.compile(r"(?:exceptions\.\w{1,40}|Exception|Error): (.{3,2000}?)(?:\n\s{1,12}at |\n\n|$)", re.DOTALL),
)


def _said_in(text: str) -> str:
    """The service's own words in a text: what clients put around them is left out."""
    for part in (text[:_LOOKED_THROUGH], text[-_LOOKED_THROUGH:]):
        for pattern in _IN_TEXT:
            if match := pattern.search(part):
                return _line(match[match.lastindex or 1])
    return _line(text)


def _line(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _SAID]).split())
    return line if len(line) <= _SAID else f"{line[: _SAID - 1]}…"


def _status(text: str) -> int:
    """The HTTP status that a text gives, by its number, by google.rpc's word or by google.rpc's number."""
    if match := _STATUS.search(text):
        return int(match[1])
    if match := _NAMED.search(text):
        return STATUSES[match[1]]
    if match := _RPC_CODE.search(text):
        return _RPC_CODES[int(match[1])]
    return 0


_NAMED = re.compile(rf"\b({'|'.join(STATUSES)})\b")
