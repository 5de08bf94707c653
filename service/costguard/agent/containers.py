"""A container that has ended: whether its command ever ran, and what Docker said where it did not.

`docker run` ends with 125 where Docker itself failed, 126 where the command cannot be executed, 127 where there is no
such command (docs.docker.com/reference/cli/docker/container/run, "Exit status"). A command may end with the same codes.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from .files import say

DOCKERS_OWN = (125, 126, 127)
NEVER = "0001-01-01T00:00:00Z"
# With --init the container starts with Docker's init, which is tini, and that cannot execute the command.
INIT_FAILED = re.compile(r"^\[FATAL tini \(\d+\)\] (exec .* failed: .*)$")
CLIENT_FAILED = re.compile(r"^docker: (?:Error response from daemon: )?(.*)$")
LAST_LINES = 6


def refusal(container: str, code: int | None, output: str) -> str | None:
    """What Docker said of a command that never ran. Nothing where the code is the command's own, or may be."""
    if code not in DOCKERS_OWN:
        return None
    lines = [line.strip() for line in output.splitlines() if line.strip()][-LAST_LINES:]
    if code != 125:
        for line in reversed(lines):
            found = INIT_FAILED.match(line)
            if found:
                return found.group(1)
    said = next((found.group(1) for found in map(CLIENT_FAILED.match, reversed(lines)) if found), "")
    state = _state(container)
    if state is None:  # Docker itself does not answer any more: its words are all there is
        return said or None
    if state.get("StartedAt", NEVER) != NEVER:
        return None
    return str(state.get("Error") or said or "Docker gave no reason")


def remove(container: str) -> None:
    """With what it wrote outside of its mounts. One that is not there is removed already."""
    try:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        say(f"docker rm {container} failed: {problem}")


def _state(container: str) -> dict[str, Any] | None:
    """Empty for a container that was never created; nothing where Docker cannot be asked."""
    command = ["docker", "container", "inspect", "--format", "{{json .State}}", container]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        if done.returncode:
            return {} if b"no such container" in done.stderr.lower() else None
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        say(f"docker container inspect {container} failed: {problem!r}")
        return None
    return found if isinstance(found, dict) else None
