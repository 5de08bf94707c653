"""The demo's simulated cloud, which is asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from costguard.errors import CostguardError

if TYPE_CHECKING:
    from costguard.clock import ScaledClock
    from costguard.main.guard import Guard

OWNER = "dana@example.com"  # a user of the simulated workspace
FASTEST = 100.0  # beyond, the longest silence that settings allow is too short for VMs in real time
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


def bill_table_of(cloud: str) -> str | None:
    """The table of Google's billing export there; None without one."""
    tables: list[str] = _ask(cloud, "/sandbox/bigquery")["tables"]
    return tables[0] if tables else None


def watch_since(guard: Guard, projects: Sequence[str], since: datetime) -> None:
    """Has the guard look for the first time, and count as having looked since then.

    Only days that were watched whole are compared with Google's bill, and none of them is in a demo's few minutes.
    """
    from sqlalchemy import update

    from costguard.db.tables import projects as watched

    guard.reconciler.run()
    with guard.database.write() as connection:
        connection.execute(update(watched).where(watched.c.project.in_(projects)).values(first_seen_at=since))


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
