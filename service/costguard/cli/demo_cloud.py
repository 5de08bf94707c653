"""The simulated cloud that the demo starts beside the guard, and asks over HTTP."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from costguard.errors import CostguardError

if TYPE_CHECKING:
    from costguard.clock import ScaledClock


@contextmanager
def simulated_cloud(scenario: str, port: int, speed: float, machines: Path | None = None) -> Iterator[str]:
    """The address of a simulated cloud, which ends with the block, and also when this process is killed.

    With a folder for `machines`, VMs that have a startup script run in it, and end with the cloud.
    """
    command = [sys.executable, "-m", "costguard_sandbox", scenario, "--port", str(port), "--speed", str(speed)]
    command += ["--machines-folder", str(machines)] if machines is not None else []
    # What runs on its VMs finds the Python that we run on by its name alone.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    # Its standard input is a pipe from us: when that closes, however we end, so does it.
    # A session of its own: Ctrl-C in the terminal is for us, and we end it.
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
        process.terminate()
        process.communicate(timeout=10)


def with_port(address: str) -> str:
    """With a free port where one of this machine alone leaves it to the system: VMs must know it beforehand."""
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
    """A clock that goes as the simulated cloud's does."""
    from costguard.clock import ScaledClock

    shown = _ask(cloud, "/sandbox/clock")
    return ScaledClock(datetime.fromisoformat(shown["now"]), shown["speed"])


def speed_of(cloud: str) -> float:
    """Its clock's seconds in one of the machine's."""
    return float(_ask(cloud, "/sandbox/clock")["speed"])


def slack_secrets(cloud: str) -> dict[str, str]:
    """What opens the simulated workspace, by the variables that the settings know."""
    shown = _ask(cloud, "/sandbox/slack/settings")
    return {
        "COSTGUARD_SLACK_TOKEN": shown["bot_token"],
        "COSTGUARD_SLACK_SIGNING_SECRET": shown["signing_secret"],
    }


def send_presses(cloud: str, guard: str) -> None:
    """From now on the simulated workspace tells the guard what people press and type."""
    _ask(cloud, "/sandbox/slack/settings", {"request_url": f"{guard}/slack/interactions"})


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0].rstrip("/.,")
    raise CostguardError(
        "The simulated cloud did not start; its own words are above.", "Try another --scenario or --sandbox-port."
    )


def _ask(cloud: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    asked = Request(cloud + path, None if body is None else json.dumps(body).encode())  # noqa: S310 - http, just given
    with urlopen(asked, timeout=10) as answer:  # noqa: S310 - an http address that we were just given
        return json.load(answer)
