"""Completion of VM and job names in a shell, from the server that the commands use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from costguard.cli.client import DEFAULT_URL, Server
from costguard.errors import CostguardError

_MOST = 200
_PATIENCE_S = 2.0  # a person waits for it with a finger on the key

Suggestions = list[tuple[str, str]]


def vms(incomplete: str) -> Suggestions:
    """Names of VMs that are there, each with what it is."""

    def found(server: Server) -> Iterator[tuple[str, str]]:
        for vm in server.get("instances", limit=_MOST)["instances"]:
            yield vm["name"], f"{vm['machine_type']}, {vm['status']}, {vm['owner'] or 'unowned'}"

    return _matching(incomplete, found)


def jobs(incomplete: str) -> Suggestions:
    """Ids of jobs, the newest first, each with its name and state."""

    def found(server: Server) -> Iterator[tuple[str, str]]:
        for job in server.get("jobs", limit=_MOST)["jobs"]:
            yield job["id"], f"{job['title']}, {job['state']}"

    return _matching(incomplete, found)


def _matching(incomplete: str, find: Callable[[Server], Iterator[tuple[str, str]]]) -> Suggestions:
    """Nothing where no server answers: the line that somebody types is no place for an error."""
    try:
        found = list(find(Server(os.environ.get("COSTGUARD_URL", DEFAULT_URL), timeout=_PATIENCE_S)))
    except CostguardError:
        return []
    return [(name, about) for name, about in dict(found).items() if name.startswith(incomplete)]
