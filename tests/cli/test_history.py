"""The history from the command line: what is there, and what is said where the settings name no place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.cli.test_serve import settings, typed
from tests.cli.typed import Typist

from costguard.db import migrate

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(typist: Typist, tmp_path: Path) -> Run:
    """`costguard db COMMAND` of an installation with an empty ledger."""
    config = settings(tmp_path, "http://127.0.0.1:9")
    migrate.upgrade(f"sqlite:///{tmp_path}/costguard.db")
    return partial(typed, typist, "db", config=config)


def test_history_without_a_place_says_what_to_set(run: Run) -> None:
    """Nothing is written, and it exits with 1."""
    done = run("history")
    assert (done.returncode, "Say in [history] where it goes" in done.stderr) == (1, True)


def test_history_of_an_empty_ledger_is_empty(run: Run, tmp_path: Path) -> None:
    """No day has closed; the list says so to people and to scripts."""
    with (tmp_path / "costguard.toml").open("a") as settings_file:
        settings_file.write(f'\n[history]\nlocation = "file://{tmp_path}/history"\n')
    done = run("history")
    assert done.returncode == 0, done.stderr
    listed = run("history", "--list", "--json")
    assert (listed.returncode, json.loads(listed.stdout)["items"]) == (0, []), listed.stderr
    assert run("history", "--list").returncode == 0
