"""The commands of jobs against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Run, runner, serving
from tests.cli.typed import Typist
from tests.jobs.job_service import JobSetup, priced
from tests.pages import job_story

from costguard.db.transaction import Database

ADA = {"COSTGUARD_OWNER": "ada@lab.example"}


@pytest.fixture
def launching(sqlite_database: Database, typist: Typist) -> Iterator[Run]:
    """A server that takes jobs in."""
    with serving(sqlite_database, office=JobSetup(priced(sqlite_database))) as url:
        yield runner(url, typist)


def test_a_job_is_launched_once_looked_at_and_cancelled(launching: Run) -> None:
    """The job is launched from a terminal, with its own key; the answer to a cancel says what comes."""
    command = ("launch", "t4", "--name", "bert", "--key", "k1", "--ceiling", "5", "--", "python", "train.py")
    made = launching(*command, **ADA)
    assert made.returncode == 0, made.stderr
    assert "bert  j1  queued" in made.stdout
    again = launching("launch", "t4", "--json", *command[2:], **ADA)
    assert json.loads(again.stdout)["job"]["id"] == "j1"
    assert "python train.py" in launching("job", "j1").stdout
    cancelled = launching("cancel", "j1", "--reason", "wrong data", **ADA)
    assert cancelled.returncode == 0, cancelled.stderr
    assert "ada@lab.example cancels it: wrong data" in cancelled.stdout


def test_all_that_is_wrong_with_a_launch_is_said_at_once(launching: Run) -> None:
    """The errors name the options as they were typed; exit code 2, and nothing is launched."""
    wrong = launching("launch", "t4", "--zone", "mars-a", "--ceiling", "0.01", "--image", "UPPER:x:y", **ADA)
    assert wrong.returncode == 2
    for option in ("--zone: ", "--ceiling: ", "--image: "):
        assert option in wrong.stderr
    assert "No job fits." in launching("jobs").stdout


def test_a_quote_is_a_table_of_zones(launching: Run) -> None:
    """The figures of the policy's own, and nothing is launched."""
    shown = launching("quote", "t4", "--hours", "10")
    assert shown.returncode == 0, shown.stderr
    (first,) = (line.split() for line in shown.stdout.splitlines() if line.startswith("us-central1-a"))
    assert first[1:3] == ["$0.172", "$0.539"]
    assert "Now: $1.72 for 10 hours in us-central1-a, Spot, $0.172 an hour" in shown.stdout


def test_a_quote_of_several_vms_says_how_many_its_prices_are_of(launching: Run) -> None:
    """Three VMs cost three times as much, and the table's head counts them."""
    shown = launching("quote", "t4", "--hours", "10", "--nodes", "3", "--", "torchrun", "train.py")
    assert "t4: 3 x n1-standard-4, 1 x nvidia-tesla-t4" in shown.stdout
    (first,) = (line.split() for line in shown.stdout.splitlines() if line.startswith("us-central1-a"))
    assert first[1] == "$0.514"


def test_what_happened_to_jobs_is_shown(sqlite_database: Database, run: Run) -> None:
    """The list, one job, its output, zones and recoveries, from what the server really answers."""
    job_story.tell(sqlite_database)
    listed = run("jobs")
    assert listed.returncode == 0, listed.stderr
    assert "Every zone of preset t4 is out of Spot stock" in listed.stdout
    assert "gan" not in listed.stdout
    assert "gan" in run("jobs", "--state", "failed").stdout
    one = run("job", "j7k2m9q4").stdout
    assert "attempt 1 preempted. Lost: 40 min ($0.17); running again after 13 min." in one
    assert "LOST: 3 h 47 min ($0.95), and it started again from zero" in one
    assert "12,000 to 20,400" in one
    assert "▲" in one
    output = run("output", "j7k2m9q4")
    assert output.stdout.endswith("saved checkpoint-30000 <done>\n")
    assert "\x1b" not in output.stdout
    assert "costguard output j7k2m9q4 --all" in output.stderr
    assert "us-central1-a  nvidia-tesla-t4  Spot" in run("places").stdout
    assert "median 11 min, 9 of 10 within 13 min" in run("recoveries").stdout
    missing = run("job", "none")
    assert (missing.returncode, "There is no job" in missing.stderr) == (1, True)


def test_nobody_is_guessed_to_be_the_owner(launching: Run) -> None:
    """Reminders and questions would go to the wrong person: a token that speaks for nobody must say who."""
    done = launching("launch", "t4", "--", "true")
    assert done.returncode == 2
    assert "--owner: " in done.stderr
    assert launching("launch", "t4", "--", "true", **ADA).returncode == 0
    refused = launching("cancel", "j1")
    assert (refused.returncode, "--owner: " in refused.stderr) == (2, True)
