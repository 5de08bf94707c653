"""A job in a file, a dry run, the question before an expensive launch, and attaching to a job."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.job_answers import DETAIL, JOB
from tests.cli.test_launch import QUOTE, run
from tests.scripted import Script, scripted

from costguard.cli.server import WrongUsage

FILE = """
preset = "a100"
name = "llama"
command = "python train.py --epochs 3"
workdir = ""
env = { EPOCHS = 3 }
ceiling = 60
buy = "demand"
"""
EXPENSIVE = {**QUOTE, "refusals": [], "question": "It may cost $312.00: 16 h at $19.50 an hour."}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(FILE)
    return str(path)


def test_a_file_is_launched_as_if_it_was_typed(script: Script, file: str) -> None:
    """A typed option counts more, and a typed command replaces the file's."""
    script.answers = [(201, DETAIL), (201, DETAIL)]
    assert run(script, "launch", file).exit_code == 0
    assert script.body() == {
        "preset": "a100",
        "name": "llama",
        "command": ["python", "train.py", "--epochs", "3"],
        "environment": {"EPOCHS": "3"},
        "ceiling": "60",
        "overrides": {"buy": "demand"},
        "owner": "ada@lab.example",
    }
    run(script, "launch", "--ceiling", "20", file, "--buy", "spot", "--", "python", "other.toml")
    assert script.body()["command"] == ["python", "other.toml"]
    assert (script.body()["ceiling"], script.body()["overrides"]) == ("20", {"buy": "spot"})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('preset = "a100"', "", "it names no preset"),
        ("ceiling =", "cieling =", "cieling is no option"),
        ("ceiling =", "wait =", "wait is no option"),
        ("ceiling =", "[grid]\nlr =", "describes a sweep"),
        ("ceiling = 60", "ceiling =", "is no TOML"),
    ],
)
def test_a_wrong_file_is_explained(script: Script, file: str, old: str, new: str, message: str) -> None:
    """The error comes before a server is asked."""
    Path(file).write_text(FILE.replace(old, new))
    done = run(script, "launch", file)
    assert isinstance(done.exception, WrongUsage)
    assert message in done.exception.message
    assert script.asked == []


def test_quote_and_dry_run_take_what_launch_takes(script: Script, file: str, tmp_path: Path) -> None:
    """The commands exit with 1 where the launch would be refused; nothing is launched, and no code is sent."""
    script.answers = [(200, EXPENSIVE), (200, QUOTE), (200, EXPENSIVE)]
    assert run(script, "quote", file, "--work", "16h", "--max-crashes", "0").exit_code == 0
    assert (script.body()["hours"], script.body()["work_hours"], script.body()["max_crashes"]) == (16.0, 16.0, 0)
    refused = run(script, "quote", "a100", "--checkpoint", "gs://lab/run", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["refusals"]
    dry = run(script, "launch", file, "--dry-run", "--workdir", str(tmp_path), "--cd", "src")
    assert (dry.exit_code, "Now: $44.40" in dry.output) == (0, True)
    assert [path for _, path, *_ in script.asked] == ["/api/v1/quotes"] * 3
    assert not {"code", "workdir"} & set(script.body())


@pytest.mark.parametrize(("answer", "paths"), [("n", ["quotes"]), ("y", ["quotes", "jobs"])])
def test_an_expensive_launch_asks_at_a_terminal(script: Script, answer: str, paths: list[str]) -> None:
    """The question has what it may cost, as the server says it."""
    script.answers = [(200, EXPENSIVE), (201, DETAIL)]
    ours, theirs = pty.openpty()
    command = "from costguard.cli.entry import main; main()"
    os.write(ours, f"{answer}\n".encode())
    done = subprocess.run(
        [sys.executable, "-c", command, "launch", "a100", "--work", "16h", "--", "true"],
        env={**os.environ, "COSTGUARD_URL": script.url, "COSTGUARD_OWNER": "ada@lab.example"},
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)
    assert "It may cost $312.00: 16 h at $19.50 an hour. Continue? [y/N]" in shown
    assert [path for _, path, *_ in script.asked] == [f"/api/v1/{path}" for path in paths]
    assert done.returncode == (0 if answer == "y" else 1)


def test_without_a_terminal_nothing_is_asked(script: Script) -> None:
    """A script that launches jobs never waits for an answer."""
    script.answers = [(201, DETAIL)]
    assert run(script, "launch", "a100", "--work", "16h", "--", "true").exit_code == 0
    assert [path for _, path, *_ in script.asked] == ["/api/v1/jobs"]


def test_follow_prints_states_and_output_until_the_end(script: Script) -> None:
    """The exit code is the job's."""
    over = {**DETAIL, "job": {**JOB, "state": "failed", "reason": "it crashed"}}
    printed = {"attempt": 2, "output": "step 1\nstep 2\n", "stored": ""}
    script.answers = [(201, DETAIL), (200, over), (200, printed), (200, over)]
    done = run(script, "launch", "t4", "--follow", "--", "true")
    assert done.exit_code == 1
    assert "step 1\nstep 2\n" in done.stdout
    assert "llama: failed. It crashed." in done.stderr
