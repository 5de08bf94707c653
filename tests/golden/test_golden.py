"""People and programs see the same, until a change is meant and its difference was read."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from tests.browser import site
from tests.golden import pages
from tests.golden.files import ROOT, difference, produced, stored
from tests.golden.sources import SOURCES
from tests.slack.samples import SAMPLES

from costguard.db.transaction import Database
from costguard.messages import notification
from costguard.messages.sweep_update import SweepEvent
from costguard.model.delivery.message import Content, ListContent, ReminderContent, StateKind
from costguard.model.event_kinds import EVENT_KINDS
from costguard.model.job import JobState
from costguard.model.sweep import SweepState

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


def test_every_kind_of_event_has_a_golden_payload() -> None:
    """A new kind of event needs a sample in tests/golden/event_samples, and a kind that is gone leaves no file."""
    files = {Path(path).stem: json.loads(text) for path, text in stored("events").items()}
    assert {name for name in files if "-" not in name} == EVENT_KINDS
    assert {name.partition("-")[0] for name in files} == EVENT_KINDS
    assert [name for name, body in files.items() if body["kind"] != name.partition("-")[0]] == []
    wrong = [name for name, body in files.items() if not (body["text"] and body["key"] and body["occurred_at"])]
    assert wrong == []


def test_every_kind_of_message_has_a_golden_payload() -> None:
    """Each type of content, each state of a reminder, each kind of event that Slack gets and each state of a job's or
    a sweep's card has a file; a sweep's events are shown by its card.
    """
    contents = {type(sample) for sample in SAMPLES.values()}
    assert contents == {*get_args(Content), ListContent}
    states = {sample.state.kind for sample in SAMPLES.values() if isinstance(sample, ReminderContent)}
    assert states == set(StateKind)
    expected = {*SAMPLES, *(set(notification.KINDS) - set(SweepEvent))}
    expected |= {f"card-job-{state}" for state in JobState} | {f"card-sweep-{state}" for state in SweepState}
    files = {Path(path).stem: path for path in stored("slack") if path.endswith(".json")}
    assert files.keys() == expected
    assert set(notification.KINDS) <= EVENT_KINDS
    assert [name for name, path in files.items() if not json.loads((ROOT / path).read_text())["text"]] == []


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
