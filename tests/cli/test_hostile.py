"""An attacker's text in the ledger does no harm in a terminal or a spreadsheet."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fastapi.testclient import TestClient
from tests.authenticators import ADMIT_ALL
from tests.browser import site
from tests.cli.conftest import runner
from tests.cli.typed import Typist
from tests.hostile import ATTACK, HARMFUL, spoil
from tests.serving import serving

from costguard.db.transaction import Database

COMMANDS = (
    "ps --all",
    "show 9500",
    "lifetimes",
    "spend --by owner",
    "events",
    "reminders",
    "enforcement",
    "budgets",
    "jobs --all",
    "job j7k2m9q4",
    "output j7k2m9q4",
    "prices",
    "places",
    "recoveries",
    "token list",
    "session list",
)
_AS_JSON = {"ps --all", "events", "job j7k2m9q4"}  # one function prints all of it


@pytest.fixture
def spoiled(sqlite_database: Database) -> site.SiteStory:
    story = site.tell(sqlite_database, ADMIT_ALL)
    spoil(sqlite_database)
    return story


def test_no_control_reaches_a_terminal(spoiled: site.SiteStory, typist: Typist) -> None:
    """A mark that turns the direction of writing is removed too, in tables, in errors and in JSON."""
    wrong = []
    with serving(spoiled.app) as url:
        run = runner(url, typist)
        for command in COMMANDS:
            for more in ((), ("--json",)) if command in _AS_JSON else ((),):
                done = run(*command.split(), *more)
                harmful = HARMFUL.search(done.stdout + done.stderr)
                if done.returncode or harmful:
                    wrong.append(f"{command} {more}: {done.returncode} {harmful!r} {done.stderr[:200]}")
                assert not more or json.loads(done.stdout)
    assert not wrong, "\n".join(wrong)


def test_no_spreadsheet_runs_a_formula_of_theirs(spoiled: site.SiteStory) -> None:
    """Every cell of every CSV that begins like one is made a text."""
    client = TestClient(spoiled.app)
    for path in ("/api/v1/spend?group_by=owner,preset&format=csv", "/api/v1/events?format=csv"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/csv"), path
        cells = [cell for row in csv.reader(io.StringIO(answer.text, newline="")) for cell in row]
        assert any(ATTACK[:12] in cell for cell in cells), path
        for cell in cells:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or _is_number(cell), (path, cell[:40])
            assert not HARMFUL.search(cell), (path, cell[:40])


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdecimal()
