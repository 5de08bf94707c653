"""Partial responses (`fields=`, `x-goog-fieldmask`) and pages of lists."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Union

# Maps a key, or `*` for every key, to the selection below it; None selects everything.
Selection = dict[str, Union["Selection", None]]
_TOKEN = re.compile(r"\s*([A-Za-z0-9_\-*]+|[(),/.])\s*")


Row = TypeVar("Row")
MAX_RESULTS = 500
"""Both the default and the ceiling of `maxResults`."""


class BadMask(ValueError):
    """An invalid mask; the text says where."""


def compile_mask(mask: str) -> Callable[[Any], Any]:
    """A function that copies only what the mask names; an empty mask or `*` keeps everything.

    As in the API, `items/id` selects the id of every item of a list.
    """
    if not mask.strip():
        return lambda value: value
    tokens = _tokens(mask)
    selection = _selection(tokens, mask)
    if tokens:
        raise BadMask(f"Invalid field selection {mask!r}: unexpected {tokens[-1]!r}.")
    return _keeper(selection)


def _tokens(mask: str) -> list[str]:
    """The mask's tokens in reverse, to be popped."""
    tokens, at = [], 0
    while at < len(mask):
        match = _TOKEN.match(mask, at)
        if match is None:
            raise BadMask(f"Invalid field selection {mask!r}: unexpected {mask[at]!r}.")
        tokens.append(match[1])
        at = match.end()
    return tokens[::-1]


def _selection(tokens: list[str], mask: str) -> Selection:
    chosen: Selection = {}
    while True:
        name, beneath = _path(tokens, mask)
        chosen[name] = _merged(chosen[name], beneath) if name in chosen else beneath
        if not tokens or tokens[-1] != ",":
            break
        tokens.pop()
    if "*" in chosen:
        # A key named in addition to `*` gets the union of both.
        for name in chosen.keys() - {"*"}:
            chosen[name] = _merged(chosen[name], chosen["*"])
    return chosen


def _path(tokens: list[str], mask: str) -> tuple[str, Selection | None]:
    if not tokens or tokens[-1] in "(),/.":
        raise BadMask(f"Invalid field selection {mask!r}: a field name is missing.")
    name = tokens.pop()
    if not tokens or tokens[-1] in "),":
        return name, None
    opener = tokens.pop()
    if opener in "/.":
        child, beneath = _path(tokens, mask)
        return name, {child: beneath}
    if opener != "(":
        raise BadMask(f"Invalid field selection {mask!r}: unexpected {opener!r}.")
    inner = _selection(tokens, mask)
    if not tokens or tokens.pop() != ")":
        raise BadMask(f"Invalid field selection {mask!r}: ')' is missing.")
    return name, inner


def _merged(one: Selection | None, other: Selection | None) -> Selection | None:
    if one is None or other is None:
        return None
    both: Selection = dict(one)
    for name, beneath in other.items():
        both[name] = _merged(both[name], beneath) if name in both else beneath
    return both


def _keeper(selection: Selection | None) -> Callable[[Any], Any]:
    """Compiled into closures, so that filtering a list of thousands costs little more than copying it."""
    if selection is None or selection == {"*": None}:
        return lambda value: value
    whole = tuple(name for name, beneath in selection.items() if beneath is None and name != "*")
    parts = [(name, _keeper(beneath)) for name, beneath in selection.items() if beneath is not None and name != "*"]
    every = _keeper(selection["*"]) if "*" in selection else None

    def keep(value: Any) -> Any:
        if isinstance(value, list):
            return [keep(element) for element in value]
        if not isinstance(value, dict):
            return value
        if every is not None:
            return {name: named.get(name, every)(beneath) for name, beneath in value.items()}
        kept = {name: value[name] for name in whole if name in value}
        for name, part in parts:
            if name in value:
                kept[name] = part(value[name])
        return kept

    named: dict[str, Callable[[Any], Any]] = {name: _keeper(None) for name in whole} | dict(parts)
    return keep


class BadPageToken(ValueError):
    """The token was not made by this server."""


def paginate(rows: Sequence[Row], max_results: int, page_token: str | None) -> tuple[list[Row], str | None]:
    """Returns a page of rows and the token of the next, None on the last page.

    More than 500 gives 500, and so does 0.
    """
    size = min(max_results, MAX_RESULTS) if max_results > 0 else MAX_RESULTS
    start = position_of(page_token) if page_token else 0
    end = start + size
    return list(rows[start:end]), page_token_at(end) if end < len(rows) else None


def page_token_at(position: int) -> str:
    """An opaque token for the page that starts there."""
    return base64.urlsafe_b64encode(b"after:%d" % position).decode().rstrip("=")


def position_of(token: str) -> int:
    """Returns the position at which the page of this token starts. Raises BadPageToken."""
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (binascii.Error, ValueError):
        text = ""
    head, _, number = text.partition(":")
    if head != "after" or not number.isdecimal():
        raise BadPageToken(f"Invalid value for field 'pageToken': '{token}'.")
    return int(number)
