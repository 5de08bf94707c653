"""Databases that each revision's own code left are brought to this version with all that they hold."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete
from structlog.testing import capture_logs
from tests.scenario.slack_story import story
from tests.upgrades import declared, figures
from tests.upgrades.later import CHANGES, LATER
from tests.upgrades.placing import comparable, place, read, upgrade_to
from tests.upgrades.recordings import Recording, load, recorded_revisions

from costguard.db import migrate
from costguard.db.before_baseline import LAST_BEFORE
from costguard.db.tables import leases
from costguard.db.transaction import Database

_ALL = "COSTGUARD_ALL_UPGRADES" in os.environ  # `make upgrades`
_SHORTEST_PROJECT = 6  # Google's ids: the settings refuse shorter ones, which some tests wrote into tables
_LAST_OF_EMPTY = 1_780_000_000_000_000  # microseconds: when a recorded database without a moment was used last
_RECORDED = [(revision, number) for revision in recorded_revisions() for number in range(len(load(revision)))]
_SOME = _RECORDED if _ALL else [(revision, 0) for revision in recorded_revisions()[:1]]


def test_every_revision_before_the_last_has_a_recording() -> None:
    """A new revision comes with a recording of the one before it: `python -m tests.upgrades.record`."""
    *before, _ = (revision for revision, _ in migrate.missing_after(None))
    assert set(before) <= set(recorded_revisions())


@pytest.mark.parametrize("revision", recorded_revisions())
def test_tables_of_a_revision_are_those_that_its_own_code_made(revision: str, tmp_path: Path) -> None:
    """A migration that was edited after its release would meet databases that it did not make."""
    url = f"sqlite:///{tmp_path / 'made.db'}"
    upgrade_to(url, revision)
    made = {name: sorted(table.columns) for name, table in read(url).items()}
    for recording in load(revision):
        assert {name: sorted(table.columns) for name, table in recording.tables.items()} == made


@pytest.mark.parametrize(("revision", "number"), _RECORDED)
def test_upgrade_keeps_every_value_and_figure(revision: str, number: int, tmp_path: Path) -> None:
    """The rows on SQLite stay but for declared changes; spend, jobs, requests, tokens and messages read as before."""
    _upgrade(load(revision)[number], f"sqlite:///{tmp_path / 'old.db'}")


@pytest.mark.parametrize(("revision", "number"), _SOME)
def test_next_pass_works_on_an_upgraded_database(revision: str, number: int, empty_database_url: str) -> None:
    """The pass fails in no part and changes no settled charge, on either database, with the same checks."""
    recording = load(revision)[number]
    _upgrade(recording, empty_database_url)
    settled = _settled_charges(empty_database_url)
    _pass(empty_database_url, _rows(recording))
    assert settled.items() <= _settled_charges(empty_database_url).items()


def test_later_migrations_keep_what_they_do_not_declare(empty_database_url: str, later: Path) -> None:
    """A value that a migration changes without saying so fails the comparison, and no other does."""
    recording = load(LAST_BEFORE)[0]
    rows = _rows(recording)
    place(recording, empty_database_url)
    assert migrate.upgrade(empty_database_url, later) == LATER[-1]
    expected = declared.expected_after_upgrade(LAST_BEFORE, rows, CHANGES)
    assert _lost(expected, empty_database_url) == {}
    undeclared = {**expected, "instances": rows["instances"]}
    owned = [row for row in rows["instances"] if row["owner"]]
    assert owned
    assert _lost(undeclared, empty_database_url) == {"instances": owned}


def test_a_lost_value_would_be_seen(tmp_path: Path) -> None:
    """A change of one amount in one row by a nano-dollar fails the comparison."""
    recording = next(recording for recording in load(LAST_BEFORE) if recording.tables["charges"].rows)
    url = f"sqlite:///{tmp_path / 'changed.db'}"
    _upgrade(recording, url)
    expected = declared.expected_after_upgrade(LAST_BEFORE, _rows(recording))
    expected["charges"][0]["amount_nanos"] += 1
    assert _lost(expected, url) == {"charges": [expected["charges"][0]]}


def _upgrade(recording: Recording, url: str) -> None:
    place(recording, url)
    migrate.upgrade(url)
    before = _rows(recording)
    expected = declared.expected_after_upgrade(recording.revision, before)
    assert _lost(expected, url) == {}
    with closing(Database.open(url)) as database, database.read() as connection:
        shown = figures.shown(connection, before)
    for name, figure in figures.recorded(before, expected).items():
        assert shown[name] == figure, f"{name} of {recording.revision}, made by {recording.made_by}"


def _lost(expected: declared.Rows, url: str) -> declared.Rows:
    """Returns, by table, the rows that are not there as they should be; columns that came later are not compared."""
    there = read(url)
    lost: declared.Rows = {}
    for name, rows in expected.items():
        present: dict[frozenset[str], set[tuple[tuple[str, Any], ...]]] = {}
        for row in rows:
            columns = frozenset(row)
            if columns not in present:
                present[columns] = {_values(record, columns) for record in there[name].records()}
            if _values(row, columns) not in present[columns]:
                lost.setdefault(name, []).append(row)
    return lost


def _values(row: dict[str, Any], columns: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((column, comparable(row[column])) for column in sorted(columns))


def _rows(recording: Recording) -> declared.Rows:
    return {name: table.records() for name, table in recording.tables.items()}


def _settled_charges(url: str) -> dict[tuple[Any, ...], int]:
    """Charges of lifetimes that ended and are charged to their end: nothing may change them."""
    tables = read(url)
    settled = {
        row["id"] for row in tables["lifetimes"].records() if row["ended_at"] and row["charged_to"] == row["ended_at"]
    }
    return {
        (charge["span_id"], charge["price_id"], str(charge["day"]), charge["started_at"]): charge["amount_nanos"]
        for charge in tables["charges"].records()
        if charge["span"] == "lifetime" and charge["span_id"] in settled
    }


def _pass(url: str, before: declared.Rows) -> None:
    """Runs a pass of the real guard over a cloud in which none of the recorded VMs is left: nothing in it fails."""
    moments = [
        value
        for rows in before.values()
        for row in rows
        for column, value in row.items()
        if column.endswith("_at") and column != "expires_at" and isinstance(value, int)
    ]
    last = max(moments, default=_LAST_OF_EMPTY)
    starts_at = datetime.fromtimestamp(last // 1_000_000, UTC) + timedelta(hours=1)
    projects = sorted({row["project"] for row in before["instances"] if len(row["project"]) >= _SHORTEST_PROJECT})
    with closing(Database.open(url)) as database, database.write() as connection:
        connection.execute(delete(leases))  # its holder ended with the test that was recorded
    with story(url, starts_at, watch={"projects": projects or ["acme-training"]}) as team, capture_logs() as logs:
        report = team.guard.by_hand.run()
    assert report.failed_projects == ()
    assert [entry for entry in logs if entry["log_level"] in ("error", "critical") and not _is_unknown(entry)] == []


def _is_unknown(entry: MutableMapping[str, Any]) -> bool:
    """The workspace is as new as the cloud: a recorded message cannot be edited in a conversation that it lacks."""
    return entry["event"] == "slack_trouble" and "channel_not_found" in entry["error"]
