"""Reads the product's dependencies: the packages that `requirements.txt` locks."""

from __future__ import annotations

import re
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[2] / "requirements.txt"
_LINE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def locked(text: str) -> dict[str, str]:
    """Versions by normalised name (PyPA's rule: lower case, with hyphens)."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in _LINE.findall(text)}
