"""The VM that somebody means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costguard.cli.client import Server
from costguard.errors import CostguardError

_MOST = 20


def the_vm(server: Server, vm: str, projects: Sequence[str] | None, gone: bool = True) -> dict[str, Any]:
    """By its name or Google's id; one that is there is meant before one that is gone. Raises CostguardError."""
    by = {"gce_id": vm} if vm.isdecimal() else {"name": vm}
    found = server.get("instances", project=projects, gone=gone, limit=_MOST, **by)["instances"]
    present = [each for each in found if each["gone_at"] is None] or found
    if not present:
        seen = "was ever seen" if gone else "is there"
        raise CostguardError(f"No VM {vm} {seen}.", "`costguard ps --all` lists those that were.")
    if len(present) > 1:
        several = "\n".join(f"  {each['gce_id']}  {each['project']} / {each['zone']}" for each in present)
        raise CostguardError(f"Several VMs are called {vm}:\n{several}", "Name one by its id.")
    only: dict[str, Any] = present[0]
    return only
