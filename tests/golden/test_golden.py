"""People and programs see the same, until a change is meant and its difference was read."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from tests.browser import site
from tests.golden import pages
from tests.golden.files import ROOT, difference, produced
from tests.golden.sources import SOURCES

from costguard.db.transaction import Database

# Sign-in pages need settings of their own, and have files of their own; /api/docs shows what openapi.json holds.
_ELSEWHERE = ("/api/", "/sign-in", "/sign-out", "/slack/")

# Libraries that write a part of it, each version in its own way: it is compared with the locked one.
_WRITERS = {
    "help": ("typer", "rich"),
    "openapi": ("fastapi", "pydantic"),
    "reference": ("typer", "fastapi", "pydantic"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_output_equals_its_golden_files(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Each file in tests/golden/files holds what the code gives today; a failure shows the difference."""
    locked = (ROOT / "requirements.txt").read_text()
    for writer in _WRITERS.get(name, ()):
        if not re.search(rf"^{writer}=={re.escape(version(writer))}\b", locked, re.MULTILINE):
            pytest.skip(f"{writer} {version(writer)} is not the locked version")
    if name == "schema":
        monkeypatch.setenv("COSTGUARD_TEST_POSTGRES", request.getfixturevalue("postgres_server"))
    diff = difference(name, produced(name))
    assert not diff, f"\n{diff}"


def test_every_page_has_a_golden_text(sqlite_database: Database) -> None:
    """A new page needs an address in tests/golden/pages.py."""
    story = site.tell(sqlite_database)
    shown = [address.partition("?")[0] for address in pages.addresses(story).values()]
    routes = [
        context.path or ""
        for context in iter_route_contexts(story.app.routes)
        if isinstance(context.original_route, APIRoute)
        and "GET" in (context.methods or ())
        and not context.include_in_schema
    ]
    of_pages = [path for path in routes if not path.startswith(_ELSEWHERE)]
    assert len(of_pages) > 15
    patterns = {path: re.sub(r"{[^}]*}", "[^/]+", path) for path in of_pages}
    assert [
        route for route, pattern in patterns.items() if not any(re.fullmatch(pattern, path) for path in shown)
    ] == []
