"""`costguard init` looks at a fleet, asks what it must, and writes settings that the other commands take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.typed import LONGEST_S, Typist

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.scenarios.scenario import build, load
from costguard_sandbox.server import running

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
Types = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    with running(build(load("demo"), ScaledClock())) as url:
        yield url


@pytest.fixture
def types(typist: Typist, tmp_path: Path) -> Types:
    return lambda *words: typist.type(words, ENVIRON, tmp_path)


def test_it_writes_settings_that_other_commands_take(types: Types, cloud: str, tmp_path: Path) -> None:
    """The file loads, and watches both projects that it looked at."""
    answers = ("--project", "acme-training", "--project", "acme-research", "--contact", "lead@acme.example")
    done = types("init", *answers, "--endpoint", cloud)
    assert (done.returncode, done.stderr) == (0, "")
    assert "acme-training: " in done.stdout
    assert "costguard doctor" in done.stdout
    text = (tmp_path / "costguard.toml").read_text("utf-8")
    assert 'projects = ["acme-training", "acme-research"]' in text
    assert "[presets.n1-t4]" in text
    assert 'domain = "acme.example"' in text
    assert types("config", "check").stdout == "The settings are correct.\n"


def test_a_file_that_is_there_is_kept(types: Types, cloud: str, tmp_path: Path) -> None:
    """Nothing is asked of Google, and --force writes over it."""
    file = tmp_path / "costguard.toml"
    file.write_text("mine")
    words = ("init", "--project", "acme-training", "--endpoint", cloud)
    done = types(*words)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert file.read_text("utf-8") == "mine"
    assert types(*words, "--force").returncode == 0
    assert file.read_text("utf-8") != "mine"


def test_what_could_not_be_read_is_said(types: Types, cloud: str, tmp_path: Path) -> None:
    """The file is for both projects, and says of which nothing is known."""
    done = types("init", "--project", "acme-training", "--project", "acme-typo-project", "--endpoint", cloud)
    assert done.returncode == 0
    assert "acme-typo-project: nothing is known of its VMs" in done.stdout
    assert "NOT READ: " in done.stdout
    text = (tmp_path / "costguard.toml").read_text("utf-8")
    assert "# Not read whole, so this file may not fit it: project acme-typo-project." in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "No project is given."),
        (("--project", "No Id"), "No Id"),
        (("--project", "a-project", "--time-zone", "X/Y"), "X/Y"),
    ],
)
def test_a_wrong_answer_writes_nothing(
    types: Types, cloud: str, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """The error names it."""
    done = types("init", *words, "--endpoint", cloud)
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_prints_for_programs(types: Types, cloud: str, tmp_path: Path) -> None:
    """The settings and what was seen, as JSON; `-` writes no file."""
    done = types("init", "--project", "acme-training", "--endpoint", cloud, "--output", "-", "--json")
    answer = json.loads(done.stdout)
    assert answer["file"] is None
    assert answer["projects"] == [{"project": "acme-training", "vms": answer["projects"][0]["vms"], "unread": []}]
    assert "[watch]" in answer["settings"]
    assert list(tmp_path.iterdir()) == []


def test_it_asks_at_a_terminal(cloud: str, tmp_path: Path) -> None:
    """Three questions: projects, contact, channel."""
    ours, theirs = os.openpty()
    command = [str(Path(sys.executable).with_name("costguard")), "init", "--endpoint", cloud]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRON, cwd=tmp_path
    ) as process:
        os.close(theirs)
        os.write(ours, b"acme-training, acme-research\nlead@acme.example\n\n")
        _, errors = process.communicate(timeout=LONGEST_S)
    os.close(ours)
    assert process.returncode == 0, errors
    text = (tmp_path / "costguard.toml").read_text("utf-8")
    assert 'projects = ["acme-training", "acme-research"]' in text
    assert 'contact = "lead@acme.example"' in text
    assert errors.count(b":") >= 3
