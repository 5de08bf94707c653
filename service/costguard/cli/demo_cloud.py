"""The demo's simulated cloud, which is asked over HTTP, and the training job that it launches there."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from costguard.cli.server import ServerClient
from costguard.errors import CostguardError
from costguard.model.words import count_text

if TYPE_CHECKING:
    from costguard.clock import ScaledClock

OWNER = "dana@example.com"  # a user of the simulated workspace
FASTEST = 100.0  # beyond, the longest silence that settings allow is too short for VMs in real time
_TRAINING = ("-m", "costguard_sandbox.scenarios.training")
_STEP_S = 0.1
_ENDING_S = 10.0


@contextmanager
def simulated_cloud(scenario: str, port: int, speed: float, vms_folder: Path | None = None) -> Iterator[str]:
    """The address of a simulated cloud that ends with the block, and also when this process is killed.

    With a `vms_folder`, VMs with a startup script run in it as local processes, which end with the cloud.
    """
    command = [sys.executable, "-m", "costguard_sandbox", scenario, "--port", str(port), "--speed", str(speed)]
    command += ["--vms-folder", str(vms_folder)] if vms_folder is not None else []
    # Commands on its VMs find our own Python by its name alone.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    # Its standard input is a pipe from us: it ends when that closes, however we end.
    # A session of its own: Ctrl-C in the terminal reaches only us, and we end it.
    process = subprocess.Popen(  # noqa: S603 - no shell, and every argument is checked
        [*command, "--until-input-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path},
        start_new_session=True,
    )
    try:
        yield _address(process)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the simulated cloud with its VMs, in no more time than programs get that end one by SIGTERM."""
    process.terminate()
    try:
        process.communicate(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def with_port(address: str) -> str:
    """Replaces port 0 on loopback by a free port: VMs must know it in advance."""
    host, _, port = address.rpartition(":")
    bare = ip_address(host.strip("[]"))
    if port != "0" or not bare.is_loopback:
        return address
    family = socket.AF_INET6 if bare.version == 6 else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((str(bare), 0))
        return f"{host}:{listener.getsockname()[1]}"


def projects_of(cloud: str) -> list[str]:
    projects: list[str] = _ask(cloud, "/sandbox/projects")["projects"]
    return projects


def clock_of(cloud: str) -> ScaledClock:
    """A clock in step with the simulated cloud's."""
    from costguard.clock import ScaledClock

    shown = _ask(cloud, "/sandbox/clock")
    return ScaledClock(datetime.fromisoformat(shown["now"]), shown["speed"])


def slack_secrets(cloud: str) -> dict[str, str]:
    """The secrets of the simulated workspace, by the environment variables that hold them."""
    shown = _ask(cloud, "/sandbox/slack/settings")
    return {
        "COSTGUARD_SLACK_TOKEN": shown["bot_token"],
        "COSTGUARD_SLACK_SIGNING_SECRET": shown["signing_secret"],
    }


def send_clicks(cloud: str, server: str) -> None:
    """Makes the simulated workspace send button clicks and commands to the server."""
    _ask(cloud, "/sandbox/slack/settings", {"request_url": f"{server}/slack/interactions"})


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if address := re.search(r"http://\S+", line):
            return address[0].rstrip("/.,")
    raise CostguardError(
        "The simulated cloud did not start; its errors are above.", "Try another --scenario or --sandbox-port."
    )


def _ask(cloud: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    request = Request(cloud + path, None if body is None else json.dumps(body).encode())  # noqa: S310 - http, just given
    with urlopen(request, timeout=10) as answer:  # noqa: S310 - an http address that we were just given
        return json.load(answer)


def why_no_job(steps: int, speed: float, server_url: str, platform: str = sys.platform) -> str:
    """Explains why the demo has no job, as a sentence; "" where it has one, or none is wanted."""
    if not steps:
        return ""
    if platform != "linux":
        return "This demo has no job: its VMs are local processes, which need Linux."
    if speed > FASTEST:
        return f"This demo has no job: its VMs run in real time, which needs a --speed of {FASTEST:g} or less."
    if not server_url:
        return "This demo has no job: its VMs reach the server at 127.0.0.1, at a known port (--listen)."
    return ""


def launch(server: ServerClient, folder: Path, project: str, steps: int) -> DemoJob:
    """Launches the job over REST, as a user would. Raises CostguardError."""
    checkpoints, result = folder / "checkpoints", folder / "result.json"
    checkpoints.mkdir()
    places = ["--checkpoints", str(checkpoints), "--result", str(result), "--steps", str(steps)]
    body = {
        "preset": "a100",
        "project": project,
        "owner": OWNER,
        "name": "train-moons",
        "command": [Path(sys.executable).name, *_TRAINING, *places, "--step-seconds", str(_STEP_S)],
        "checkpoint": {
            "location": f"file://{checkpoints}",
            "resume": "--from_checkpoint {checkpoint}",
            "framework": "marker",
            "pattern": "step-{step}/",
            "marker": "DONE",
        },
        "work_hours": 2,
        "ceiling": "25.00",
    }
    return DemoJob(str(server.post("jobs", body=body, key="demo")["job"]["id"]), folder, steps)


@dataclass(slots=True)
class DemoJob:
    """The training. Once it has succeeded, it is run again without interruption, to compare the results."""

    id: str
    folder: Path
    steps: int
    comparison: str = ""  # of the results; "" until it is known
    _without_stop: subprocess.Popen[bytes] | None = None

    def look(self, server: ServerClient) -> tuple[dict[str, Any], list[str]]:
        """The job as the API shows it, and the last lines that it printed."""
        detail, output = server.get("jobs", self.id), server.get("jobs", self.id, "output")
        self._compare(detail["job"])
        return detail, str(output["output"]).splitlines()[-2:]

    def end(self) -> None:
        if self._without_stop is not None:
            self._without_stop.kill()
            self._without_stop.wait()

    def _compare(self, job: dict[str, Any]) -> None:
        if self.comparison or job["state"] != "succeeded":
            return
        again = self.folder / "uninterrupted.json"
        if self._without_stop is None:
            places = ["--checkpoints", str(self.folder / "others"), "--result", str(again), "--steps", str(self.steps)]
            # One checkpoint at its end, and no pause between two steps: it takes a second.
            hasty = ["--every", str(self.steps), "--step-seconds", "0"]
            self._without_stop = subprocess.Popen(  # noqa: S603 - no shell, and every argument is ours
                [sys.executable, *_TRAINING, *places, *hasty], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        elif self._without_stop.poll() is not None:
            self.comparison = _comparison(job, self.folder / "result.json", again)


def _comparison(job: dict[str, Any], result: Path, again: Path) -> str:
    try:
        text, other = result.read_text("utf-8"), again.read_text("utf-8")
        loss = float(json.loads(text)["loss"])
    except (OSError, ValueError, KeyError) as error:
        return f"{job['title']}: its result could not be compared with that of an uninterrupted run: {error}"
    if text != other or math.isnan(loss):
        return f"{job['title']}: NOT the result of an uninterrupted run: something was lost or done twice."
    vms = f"{count_text(job['attempts'], 'VM')}, {job['preemptions']} of them preempted"
    return f"{job['title']}: same result as an uninterrupted run, to the last bit: loss {loss:.6f} on {vms}."
