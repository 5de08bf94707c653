"""`python -m costguard_sandbox`: the simulated cloud as a program."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import requests
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier
from tests.sandbox.slack.receiver import App, receiving
from tests.sandbox.vms import body

from costguard_sandbox.__main__ import main
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET

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
            url = re.search(r"http://\S+", program.stdout.readline())
            assert url is not None
            yield program, url[0]
        finally:
            program.kill()


def test_it_serves_the_demo_until_ctrl_c() -> None:
    """The printed address answers; an interrupt ends it with status 0 and without a traceback."""
    with started("--speed", "60") as (program, url):
        listed = requests.get(f"{url}/compute/v1/projects/acme-training/aggregated/instances", timeout=30)
        assert listed.status_code == 200
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
        assert (program.returncode, errors) == (0, "")


def test_it_can_end_with_its_input() -> None:
    """When its parent process is killed, it ends, too."""
    with started("empty", "--until-input-ends") as (program, _):
        program.communicate(timeout=30)
        assert program.returncode == 0


def test_requests_are_written_down(tmp_path: Path) -> None:
    """Each has a line once its answer began, with the caller's name, the address that it called, and the status."""
    log = tmp_path / "requests.jsonl"
    with started("empty", "--requests", str(log)) as (_, url):
        listed = f"{url}/compute/v1/projects/acme-training/aggregated/instances"
        requests.get(listed, params={"maxResults": "5"}, timeout=30)
        requests.get(listed.replace("acme-training", "nobody"), headers={"x-sandbox-user": "ana@a.com"}, timeout=30)
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert datetime.fromisoformat(first.pop("at")).tzinfo is not None
    assert first == {
        "host": url.removeprefix("http://"),
        "user": "",
        "method": "GET",
        "path": "/compute/v1/projects/acme-training/aggregated/instances",
        "query": "maxResults=5",
        "status": 200,
    }
    assert (second["user"], second["status"]) == ("ana@a.com", 404)


def test_requests_that_cannot_be_written_down_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and the file."""
    assert main(["empty", "--requests", str(tmp_path / "nowhere" / "log")]) == 2
    assert "nowhere/log: No such file or directory" in capsys.readouterr().err


def test_an_invalid_scenario_is_reported_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what was expected."""
    assert main(["no-such-scenario"]) == 2
    assert "expected a TOML file or one of: demo, empty" in capsys.readouterr().err


def test_a_port_in_use_is_reported() -> None:
    """Status 2, and what to try."""
    with started("empty") as (_, url):
        done = subprocess.run(
            [sys.executable, "-m", "costguard_sandbox", "empty", "--port", url.rsplit(":", 1)[1]],
            cwd=_SERVICE,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 2
    assert "try --port 0" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_vms_that_run_end_with_the_program(tmp_path: Path, number: signal.Signals) -> None:
    """The VMs end however the program ends; its own end is seen through a pipe that they all hold."""
    os.mkfifo(tmp_path / "said")
    said = os.open(tmp_path / "said", os.O_RDONLY | os.O_NONBLOCK)
    script = f"exec 9>{tmp_path}/said; trap '' TERM; setsid sleep 1000 & while :; do echo alive >&9; sleep 0.1; done"
    metadata = {"items": [{"key": "startup-script", "value": script}]}
    with started("empty", "--speed", "1000", "--vms-folder", str(tmp_path / "vms")) as (program, url):
        zone = f"{url}/compute/v1/projects/demo-project/zones/us-central1-a"
        project = requests.get(f"{url}/sandbox/projects", timeout=30).json()["projects"][0]
        zone = zone.replace("demo-project", project)
        made = requests.post(f"{zone}/instances", json=body(metadata=metadata), timeout=30)
        assert made.status_code == 200
        assert select.select([said], [], [], 30)[0]
        program.send_signal(number)
        program.wait(30)
        while select.select([said], [], [], 30)[0]:
            if not os.read(said, 4096):
                break
        else:
            raise AssertionError("a process of the VM holds the pipe for ever")
    os.close(said)


_PRESSING = """
projects = ["acme-training"]
[[instance]]
project = "acme-training"
name = "t4"
zone = "us-central1-a"
machine_type = "n1-standard-4"
gpu = "nvidia-tesla-t4"
started = "1h ago"
[[event]]
at = "1m"
do = "click"
user = "ana"
button = "stop"
vm = "t4"
within = "365d"
"""


def test_planned_clicks_happen_without_requests(tmp_path: Path) -> None:
    """Time goes on by itself in the running program: the event comes, and the message that stands is answered."""
    scenario = tmp_path / "pressing.toml"
    scenario.write_text(_PRESSING)
    pressed = threading.Event()

    def answer(_payload: object) -> tuple[int, str]:
        pressed.set()
        return 200, ""

    with (
        receiving(App(SignatureVerifier(SIGNING_SECRET), answer)) as app,
        started(str(scenario), "--speed", "600") as (_, url),
    ):
        requests.post(
            f"{url}/sandbox/slack/settings", json={"request_url": f"{app.url}/slack/interactions"}, timeout=30
        )
        button = {"type": "button", "action_id": "stop", "text": {"type": "plain_text", "text": "Stop"}}
        blocks = [{"type": "actions", "elements": [button]}]
        client = WebClient(BOT_TOKEN, base_url=f"{url}/slack/api/", timeout=30)
        client.chat_postMessage(channel="#gpu-costs", text="t4 is still running", blocks=blocks)
        assert pressed.wait(30)
    ((_, payload),) = app.received
    assert (payload["user"]["name"], payload["actions"][0]["action_id"], app.refused) == ("ana", "stop", 0)
