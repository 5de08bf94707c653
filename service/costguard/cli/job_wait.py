"""Waiting for a job, and telling what changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costguard.cli.client import Server
from costguard.errors import ServerUnreachable
from costguard.ledger.narrate import sentence

GOOD = frozenset({"succeeded", "running"})  # how a training job ends well, and what a dev VM is waited for
_OVER = frozenset({"succeeded", "failed", "cancelled"})


def follow(
    server: Server, detail: dict[str, Any], tell: Callable[[str], None], wait: Callable[[], object]
) -> dict[str, Any]:
    """Until it is over; a dev VM: until it is up. A server that is away for a while is waited for: the job goes on."""
    told = trouble = ""
    while True:
        job = detail["job"]
        line = f"{job['title']}: {job['state']}. {sentence(job['reason'])}"
        if line != told and not trouble:
            tell(line)
            told = line
        if job["state"] in _OVER or (job["kind"] == "dev" and detail["ssh_command"] and job["state"] == "running"):
            return detail
        wait()
        try:
            detail, trouble = server.get("jobs", job["id"]), ""
        except ServerUnreachable as error:
            if not trouble:
                tell(f"{error.message} The job goes on; the server is asked again.")
            trouble = error.message
