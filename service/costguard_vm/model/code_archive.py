"""The archive of a work directory: what may be in it, how large it may be, and where its links lead.

It travels with the agent too: Python 3.8 must do. A gzipped tar, named by the SHA-256 of the tar inside, so that the
same folder has the same name whatever compressed it.
"""

from __future__ import annotations

import re

MOST_FILES = 20_000
MOST_BYTES = 256 << 20  # of its files together, unpacked
# Each file takes a header of 512 bytes, more with a long name, and is padded to 512.
MOST_UNPACKED = MOST_BYTES + (MOST_FILES + 20) * 4096
MOST_FOLDERS = 20_000
_LONGEST_NAME = 1_000  # bytes; Linux allows 4,096 for a path with the folder that it is unpacked in...
_LONGEST_PART = 255  # ...and so many for each part
_MOST_LEVELS = 100
_MOST_HOPS = 40  # through other links: Linux gives up after so many (path_resolution(7))
_MOST_STEPS = 400_000  # of all links together
FILE, LINK = "file", "link"
IN_IMAGE = "/costguard/code"  # where it lies in a container
# Controls, and signs that turn the direction of a text: a name is shown in terminals, on pages and in Slack.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class WrongArchive(Exception):
    """It cannot be unpacked safely, or is not the one that was meant."""


def problem_of(name: str, kind: str, target: str = "") -> str:
    """Returns why this member may not be unpacked; "" where it may. Links may lead to what is in the archive alone."""
    parts = name.split("/")
    if _UNSHOWN.search(name) and "\x00" not in name:
        return f"{name!a} has a sign in its name that cannot be shown"
    if not name or name.startswith("/") or "\x00" in name or any(part in ("", ".", "..") for part in parts):
        return f"{name!r} is no path inside of the archive"
    if len(parts) > _MOST_LEVELS:
        return f"{name[:80]!r} lies {len(parts)} folders deep, and {_MOST_LEVELS} are allowed"
    if len(name.encode()) > _LONGEST_NAME or any(len(part.encode()) > _LONGEST_PART for part in parts):
        return f"{name[:80]!r} has a name that is too long"
    if kind == FILE:
        return ""
    if kind != LINK:
        return f"{name} is neither a file nor a link"
    if not target or target.startswith("/") or _UNSHOWN.search(target) or len(target.encode()) > _LONGEST_NAME:
        return f"{name} is a link that leads out of the archive, to {target[:80]!a}"
    depth = len(parts) - 1
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return f"{name} is a link that leads out of the archive, to {target!r}"
    return ""


class ArchiveContents:
    """Checks the members of an archive together. `add` each, then `finish`. Both raise WrongArchive."""

    def __init__(self) -> None:
        self.links: dict[str, str] = {}
        self._names: set[str] = set()
        self._folders: set[str] = set()
        self._steps = 0

    def add(self, name: str, kind: str, target: str = "") -> None:
        problem = problem_of(name, kind, target)
        if problem:
            raise WrongArchive(problem)
        if name in self._names:
            raise WrongArchive(f"{name} is in it twice")
        self._names.add(name)
        if len(self._names) > MOST_FILES:
            raise WrongArchive(f"it has more than {MOST_FILES:,} files")
        if kind == LINK:
            self.links[name] = target
        folder = name.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            folder = folder.rpartition("/")[0]
        if len(self._folders) > MOST_FOLDERS:
            raise WrongArchive(f"it has more than {MOST_FOLDERS:,} folders")

    def finish(self) -> None:
        both = sorted(self._names & self._folders)
        if both:
            raise WrongArchive(f"{both[0]} is a folder in it, and a file or a link as well")
        for name in self.links:
            self._follow(name)

    def _follow(self, name: str) -> None:
        """Follows a link as Linux resolves it: each part in turn, through other links.

        Texts alone do not say where `..` leads.
        """
        place: list[str] = name.split("/")[:-1]
        waiting = self.links[name].split("/")[::-1]
        hops = 0
        while waiting:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise WrongArchive("its links lead through too many others")
            part = waiting.pop()
            if part == "..":
                if not place:
                    raise WrongArchive(f"{name} is a link that leads out of the archive, to {self.links[name]!r}")
                place.pop()
            elif part not in ("", "."):
                place.append(part)
                target = self.links.get("/".join(place))
                if target is not None:
                    hops += 1
                    if hops > _MOST_HOPS:
                        raise WrongArchive(f"{name} is a link that leads to itself, or through too many others")
                    place.pop()
                    waiting += target.split("/")[::-1]
