"""`costguard schedule` against a real server: created of a file, listed, shown, paused, resumed, run and ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run, runner, serving
from tests.cli.typed import Typist
from tests.jobs.job_service import JobSetup, priced
from tests.schedules import schedule_story

from costguard.db.transaction import Database
from costguard.model.job import JobState

FILE = """
name = "nightly"
preset = "t4"
command = "python train.py --day {date}"
checkpoint = "gs://lab/nightly/{date}"
local = "/data/out"
resume = "--from {checkpoint}"
work = "2h"
"""
ADA = {"COSTGUARD_OWNER": "ada@lab.example"}


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    return JobSetup(priced(sqlite_database))


@pytest.fixture
def run(office: JobSetup, typist: Typist) -> Iterator[Run]:
    with serving(office.database, office=office) as url:
        yield runner(url, typist)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.toml"  # as documents name it
    path.write_text(FILE)
    return str(path)


def test_file_is_scheduled_without_naming_the_subcommand(run: Run, file: str) -> None:
    """The job's options are those of a launch, and its name is the schedule's."""
    done = run("schedule", file, "--every", "day", "--at", "02:00", "--deadline", "24h", "--late", "2h", **ADA)
    assert done.returncode == 0, done.stderr
    assert "nightly  c1  active" in done.stdout
    assert "A job on t4 at 02:00 every day (UTC). The next run is due at 2026-11-21 02:00 UTC." in done.stdout
    shown = json.loads(run("schedule", "show", "nightly", "--json").stdout)
    assert (shown["schedule"]["cron"], shown["schedule"]["late_seconds"]) == ("0 2 * * *", 7200)


def test_dry_run_prints_the_times_and_a_month(run: Run, file: str) -> None:
    """A Spot T4 costs $0.1715 an hour here: 30 runs of two hours are $10.29."""
    zone = ("--time-zone", "Europe/Berlin")
    done = run("schedule", file, "--every", "day", "--at", "02:00", *zone, "--dry-run", **ADA)
    assert done.returncode == 0, done.stderr
    assert "It runs at 02:00 every day (Europe/Berlin), next at" in done.stdout
    assert "A month of 30 runs: about $10.29." in done.stdout
    assert json.loads(run("schedule", "list", "--json").stdout)["schedules"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Give either --every"),
        (("--every", "week"), "'week' is no interval"),
        (("--cron", "* * * * *"), "10 min are the least"),
        (("--every", "day", "--time-zone", "Mars"), "no time zone"),
        (("--every", "day", "--late", "soon"), "no span of whole minutes"),
        (("--every", "day", "--late", "30d"), "A run can be late by 1 min to 7 d"),
        (("--every", "day", "--deadline", "2027-01-01T00:00Z"), "cannot hold for all runs"),
        (("--every", "day", "--env", "DAY={day}"), "{day} stands for nothing here"),
        (("--every", "day", "--dev"), "has none: launch it by itself"),
    ],
)
def test_wrong_schedules_are_refused(run: Run, file: str, options: tuple[str, ...], words: str) -> None:
    """The message says what to change, and nothing is stored."""
    done = run("schedule", "create", file, *options, **ADA)
    assert done.returncode != 0
    text = " ".join((done.stdout + done.stderr).split())
    assert words in text
    assert json.loads(run("schedule", "list", "--all", "--json").stdout)["schedules"] == []


def test_runs_that_share_a_place_are_warned_of(run: Run, file: str) -> None:
    """A location without {date} lets each run resume from what the one before saved."""
    done = run("schedule", file, "--every", "day", "--checkpoint", "gs://lab/same", "--dry-run", **ADA)
    assert "WARNING: Runs save to the same place, gs://lab/same, so that each resumes what" in " ".join(
        done.stdout.split()
    )
    twice_a_day = run("schedule", file, "--every", "6h", "--dry-run", **ADA)
    assert "the same place, gs://lab/nightly/2026-11-21," in " ".join(twice_a_day.stdout.split())


def test_schedule_is_listed_shown_and_changed(run: Run, office: JobSetup) -> None:
    """The list has the last run, the schedule each run with its job."""
    schedule_story.tell(office)
    assert "nightly" in run("schedule", "list").stdout
    shown = run("schedule", "show", schedule_story.ID).stdout
    for part in ("skipped", "missed", "launched", "cm1", "Cost of 4 runs: $0.00", "costguard schedule pause"):
        assert part in shown, part
    assert "paused" in run("schedule", "pause", "nightly", **ADA).stdout
    assert "costguard schedule resume" in run("schedule", "show", "nightly").stdout
    assert "active" in run("schedule", "resume", "nightly", **ADA).stdout
    open_run = run("schedule", "run", "nightly", **ADA)
    assert open_run.returncode == 1
    assert "is open: cm2" in open_run.stderr
    schedule_story.settle(office, "cm2", JobState.SUCCEEDED)
    assert "launching" in run("schedule", "run", "nightly", **ADA).stdout
    assert "ended" in run("schedule", "end", "nightly", **ADA).stdout
    assert "nightly" not in run("schedule", "list").stdout
    assert "nightly" in run("schedule", "list", "--all").stdout
