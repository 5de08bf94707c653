"""Lists that come in pages end, or say why they were left."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from costguard.gce.pages import walk


def walked(pages: Mapping[str, Mapping[str, Any]], most: int = 9) -> list[Any]:
    return [page["items"] for page in walk(lambda token: dict(pages[token]), ValueError, most)]


def test_each_page_is_asked_for_by_the_token_of_the_one_before() -> None:
    """An empty token ends the list like none."""
    pages: dict[str, dict[str, Any]] = {
        "": {"items": 1, "nextPageToken": "a"},
        "a": {"items": 2, "nextPageToken": "b"},
        "b": {"items": 3},
    }
    assert walked(pages) == [1, 2, 3]
    assert walked({**pages, "b": {"items": 3, "nextPageToken": ""}}) == [1, 2, 3]


@pytest.mark.parametrize("token", ["a", 7, ["b"]])
def test_a_token_that_leads_nowhere_is_an_error(token: object) -> None:
    """The page before, again, would repeat its members for as long as one asks."""
    pages = {"": {"items": 1, "nextPageToken": "a"}, "a": {"items": 2, "nextPageToken": token}}
    with pytest.raises(ValueError, match="does not go on after a page"):
        walked(pages)


def test_a_list_without_an_end_is_left() -> None:
    """Each page has a token of its own."""
    tokens = map(str, count())
    with pytest.raises(ValueError, match="no end; it was left after 9 pages"):
        list(walk(lambda _: {"nextPageToken": next(tokens)}, ValueError, 9))
