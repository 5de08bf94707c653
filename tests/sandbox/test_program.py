"""`python -m costguard_sandbox`: the simulated cloud as a program."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from costguard_sandbox.__main__ import main

_SERVICE = Path(__file__).parents[2] / "service"


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running program and the address that it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "costguard_sandbox", *arguments],
        cwd=_SERVICE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        try:
            found = re.search(r"http://\S+", program.stdout.readline())
            assert found is not None
            yield program, found[0]
        finally:
            program.kill()


def test_it_serves_the_demo_until_ctrl_c() -> None:
    """The printed address answers; an interrupt ends it with status 0 and without a traceback."""
    with started("--speed", "60") as (program, url):
        listed = requests.get(f"{url}/compute/v1/projects/acme-training/aggregated/instances", timeout=10)
        assert listed.status_code == 200
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=20)
        assert (program.returncode, errors) == (0, "")


def test_it_ends_with_its_input_when_asked_to() -> None:
    """Whoever started it may be killed, and it does not stay behind."""
    with started("empty", "--until-input-ends") as (program, _):
        program.communicate(timeout=20)
        assert program.returncode == 0


def test_a_wrong_scenario_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what was expected."""
    assert main(["no-such-scenario"]) == 2
    assert "expected a TOML file or one of: demo, empty" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told() -> None:
    """Status 2, and what to try."""
    with started("empty") as (_, url):
        done = subprocess.run(
            [sys.executable, "-m", "costguard_sandbox", "empty", "--port", url.rsplit(":", 1)[1]],
            cwd=_SERVICE,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert done.returncode == 2
    assert "try --port 0" in done.stderr
