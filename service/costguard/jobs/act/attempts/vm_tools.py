"""Finds the programs for VMs that are installed with the guard: wheels of the locked requirements hold them."""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from costguard.model.vm_tool import PY_SPY, RCLONE, PinnedTool


@lru_cache(maxsize=1)
def vm_tools() -> Mapping[str, PinnedTool]:
    """Returns the tools by name. Without those that are not installed: VMs then need them in their boot images."""
    return {name: tool for name in (RCLONE, PY_SPY) if (tool := _pinned(name)) is not None}


def _pinned(name: str) -> PinnedTool | None:
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.is_file():
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return PinnedTool(str(path), digest, f"{sys.platform}-{platform.machine()}")
