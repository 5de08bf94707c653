"""The archive of a work directory: what may be in it, and how large it may be.

It travels with the agent too. A gzipped tar, named by the SHA-256 of the tar inside, so that the same folder has the
same name whatever compressed it.
"""

from __future__ import annotations

MOST_FILES = 20_000
MOST_BYTES = 256 << 20  # of its files together, unpacked
# Each file takes a header of 512 bytes, more with a long name, and is padded to 512.
MOST_UNPACKED = MOST_BYTES + (MOST_FILES + 20) * 4096
FILE, LINK = "file", "link"
IN_IMAGE = "/costguard/code"  # where it lies in a container


class WrongArchive(Exception):
    """It cannot be unpacked safely, or is not the one that was meant."""


def problem_of(name: str, kind: str, target: str = "") -> str:
    """Why this member may not be unpacked; "" where it may. Links may lead to what is in the archive alone."""
    parts = name.split("/")
    if not name or name.startswith("/") or "\x00" in name or any(part in ("", ".", "..") for part in parts):
        return f"{name!r} is no path inside of the archive"
    if kind == FILE:
        return ""
    if kind != LINK:
        return f"{name} is neither a file nor a link"
    if not target or target.startswith("/") or "\x00" in target:
        return f"{name} is a link that leads out of the archive, to {target!r}"
    depth = len(parts) - 1
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return f"{name} is a link that leads out of the archive, to {target!r}"
    return ""
