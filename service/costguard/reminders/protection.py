"""Which VMs no rule may stop."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from costguard.access.rules import Protection


def protected_because(name: str, project: str, labels: Mapping[str, str], protection: Protection) -> str:
    """`label costguard-protect: nightly-eval`, `project acme-prod`, `name *-prod`; "" where it is not protected."""
    said = labels.get(protection.label)
    if said is not None and said.lower() != "false":
        reason = "" if said.lower() in ("", "true") else f": {said}"
        return f"label {protection.label}{reason}"
    if project in protection.projects:
        return f"project {project}"
    pattern = next((pattern for pattern in protection.names if fnmatchcase(name, pattern)), None)
    return f"name {pattern}" if pattern is not None else ""
