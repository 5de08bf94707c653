"""Pages of lists, and the aggregated lists that name every scope on every page."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row")

MAX_RESULTS = 500
"""Both the default and the ceiling of `maxResults`."""


class BadPageToken(ValueError):
    """The token was not given out by this server."""


def paginate(rows: Sequence[Row], max_results: int, page_token: str | None) -> tuple[list[Row], str | None]:
    """One page of rows and the token of the next, None on the last page.

    More than 500 gives 500, and so does 0.
    """
    size = min(max_results, MAX_RESULTS) if max_results > 0 else MAX_RESULTS
    start = position_of(page_token) if page_token else 0
    end = start + size
    return list(rows[start:end]), page_token_at(end) if end < len(rows) else None


def aggregated(
    kind: str,
    list_key: str,
    by_scope: Mapping[str, list[dict[str, Any]]],
    all_scopes: Sequence[str],
    self_link: str,
    next_page_token: str | None,
    unreachables: Sequence[str],
) -> dict[str, Any]:
    """An aggregated list: a map in which every scope appears on every page.

    A scope without rows says so by a warning; one that could not be read says UNREACHABLE
    instead, because nothing is known about it. Scopes are keys such as `zones/us-central1-a`.
    """
    lost = set(unreachables)
    items: dict[str, Any] = {}
    for scope in all_scopes:
        rows = by_scope.get(scope)
        if scope in lost:
            items[scope] = {"warning": _warning("UNREACHABLE", f"The scope '{scope}' is unreachable.", scope)}
        elif rows:
            items[scope] = {list_key: rows}
        else:
            text = f"There are no results for scope '{scope}' on this page."
            items[scope] = {"warning": _warning("NO_RESULTS_ON_PAGE", text, scope)}
    answer: dict[str, Any] = {"kind": kind, "id": self_link.partition("/compute/v1/")[2], "items": items}
    if next_page_token:
        answer["nextPageToken"] = next_page_token
    answer["selfLink"] = self_link
    if unreachables:
        answer["unreachables"] = list(unreachables)
    return answer


def _warning(code: str, message: str, scope: str) -> dict[str, Any]:
    return {"code": code, "message": message, "data": [{"key": "scope", "value": scope}]}


def page_token_at(position: int) -> str:
    """An opaque token for the page that starts there."""
    return base64.urlsafe_b64encode(b"after:%d" % position).decode().rstrip("=")


def position_of(token: str) -> int:
    """Where the page of that token starts; BadPageToken when it is none of ours."""
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (binascii.Error, ValueError):
        text = ""
    head, _, number = text.partition(":")
    if head != "after" or not number.isdecimal():
        raise BadPageToken(f"Invalid value for field 'pageToken': '{token}'.")
    return int(number)
