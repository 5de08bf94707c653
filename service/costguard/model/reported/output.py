"""The output of a job as it is stored: where its pieces lie, and places in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from costguard.model.job import JobKind, JobSpec
from costguard_vm.model.checkpoint import LOGS_FOLDER, names_a_file

_PIECE = re.compile(r"([0-9]{1,9})/([0-9]{15})\.log\.gz")
_PLACE = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class OutputPlace:
    """A byte of an attempt's output: in which run, counted from 1, and after how many bytes of it."""

    run: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.run}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> OutputPlace:
        """Raises ValueError."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} is no place in an output")
        return cls(int(match[1]), int(match[2]))


def place_of_piece(path: str) -> OutputPlace | None:
    """Where a piece begins, by its path in the attempt's folder; None where that is no piece's."""
    match = _PIECE.fullmatch(path)
    return OutputPlace(int(match[1]), int(match[2])) if match is not None else None


def output_folder(spec: JobSpec, attempt_name: str, elsewhere: str) -> str:
    """Returns the folder of an attempt's output: next to its job's checkpoints where these are in a bucket, else
    `elsewhere`.

    "" where neither is set. `elsewhere` is [jobs] logs.
    """
    if spec.kind is JobKind.DEV:
        return ""
    plan = spec.checkpoint
    if plan is None or plan.is_on_disk:
        return f"{elsewhere.rstrip('/')}/{attempt_name}" if elsewhere else ""
    location = plan.location.rstrip("/")
    if names_a_file(location):
        location = location.rpartition("/")[0]
    return f"{location}/{LOGS_FOLDER}/{attempt_name}"
