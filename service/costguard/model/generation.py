"""The generation of a database: a number that grows with every restore, move or clone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

GENERATION_LABEL = "costguard-generation"  # on a VM: of the database that held the intent to launch it
REQUEST_LABEL = "costguard-request"  # on a VM: the request id of that very intent
FIRST = 1

_NUMBER = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"cg-([a-z][a-z0-9]*)-([1-9][0-9]{0,8})(?:-g([1-9][0-9]{0,8}))?")


class Cause(StrEnum):
    """The reason why a generation began."""

    RESTORED = "restored"  # by `costguard db restore`
    RECOGNISED = "recognised"  # VMs showed that another copy of this database launched them
    OLDER = "older"  # the database has not come as far as it had before
    MOVED = "moved"  # the database is not the file, or not in the server, that it was in


@dataclass(frozen=True, slots=True)
class Generation:
    """`began_at` is None for the first one."""

    number: int = FIRST
    began_at: datetime | None = None
    cause: Cause | None = None
    backup_at: datetime | None = None  # when the backup was made; None: not known


@dataclass(frozen=True, slots=True)
class AttemptName:
    """The parts of an attempt's name."""

    job_id: str
    number: int
    generation: int = FIRST

    def __str__(self) -> str:
        later = "" if self.generation == FIRST else f"-g{self.generation}"
        return f"cg-{self.job_id}-{self.number}{later}"

    @classmethod
    def parse(cls, name: str) -> AttemptName | None:
        """Parses a name; None where it is no attempt's name."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(match[1], int(match[2]), int(match[3] or FIRST))


def generation_of(labels: Mapping[str, str]) -> int:
    """Returns the generation of a VM by its labels. A VM launched before this label existed is of the first."""
    value = labels.get(GENERATION_LABEL, "")
    return int(value) if _NUMBER.fullmatch(value) else FIRST
