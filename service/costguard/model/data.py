"""Data of jobs: how much of it is stored somewhere, and what moving it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from costguard.model.duration import span_text
from costguard.model.money import Money
from costguard.model.words import size_text

PUBLISHED = "_SUCCESS"  # in an output's folder: written last, so that its reader knows that all of it is there


@dataclass(frozen=True, slots=True)
class StoredSize:
    """The amount of data at an address. `is_whole` is false where counting stopped at a limit: there is at least this
    much.

    `region` is the bucket's, as S3 names it; "" where it is not known. `is_published`: the marker of a published output
    lies there.
    """

    bytes: int
    files: int
    is_whole: bool = True
    region: str = ""
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class DataMove:
    """An input or output before it is moved. `size` and `cost` are None where they are not known.

    `cost` is what one move of it costs, at list prices; each VM of a job moves its inputs again. `note` is a sentence
    about the cost. `staged`: all VMs take it from a stage near them, and it leaves its source once.
    """

    where: str  # "inputs.0"
    source: str
    target: str
    size: StoredSize | None
    cost: Money | None
    note: str
    staged: bool = False


STAGES = "costguard/stage"  # the folder of a bucket that stages are in


@dataclass(frozen=True, slots=True)
class StageRules:
    """The buckets near the VMs for data that many of them take: one for all regions, and others by region.

    `location` is where the first one lies. A stage goes that no job has used for `keep`; more than `most` bytes are
    not kept, None: no limit. With `--stage auto` an input is staged from `least` bytes on.
    """

    bucket: str = ""
    location: str = ""
    regions: Mapping[str, str] = field(default_factory=dict)
    keep: timedelta = timedelta(days=14)
    most: int | None = None
    least: int = 1 << 30

    @property
    def is_set(self) -> bool:
        return bool(self.bucket or self.regions)

    def address_in(self, region: str) -> str:
        """Returns the folder of the stages for VMs of a region, as a URI; "": none is near it."""
        bucket = self.regions.get(region) or self.bucket
        return f"{bucket.rstrip('/')}/{STAGES}" if bucket else ""

    @property
    def locations(self) -> Mapping[str, str]:
        """The location of each folder of stages; "" where it is not known."""
        places = {f"{bucket.rstrip('/')}/{STAGES}": region for region, bucket in self.regions.items()}
        return {**places, **({self.address_in(""): self.location} if self.bucket else {})}


@dataclass(frozen=True, slots=True)
class StagedShare:
    """The bytes of a source that lie in a stage, and all of its bytes, by the stage that was used last."""

    staged: int
    size: int

    def left_of(self, cost: Money) -> Money:
        """Returns the part of a whole download's cost that is still to be paid."""
        return Money(cost.nanos * max(0, self.size - self.staged) // self.size) if self.size else Money(0)


class StageStore(Protocol):
    def delete(self, place: str, first: str) -> int:
        """Deletes all below a place, its object `first` before the others. Returns how many objects were there.

        What is gone already is no failure. Raises CheckpointError.
        """
        ...


class TransferState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"  # all of it was there already
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DataTransfer:
    """A transfer on a VM, as its agent reported it last. `kind` is "input", "output" or "result". None: not known.

    `note` says in words what a result is.
    """

    kind: str
    source: str
    target: str
    state: TransferState
    bytes_done: int | None = None
    bytes_total: int | None = None
    files_done: int | None = None
    files_total: int | None = None
    bytes_per_s: int | None = None
    seconds: int | None = None
    error: str = ""
    note: str = ""
    from_source: int | None = None  # bytes of a staged input that came from its source; None: it is not staged

    @property
    def text(self) -> str:
        """`downloading: 1.2 GiB of 4.0 GiB, 300 of 1,000 files, 110.0 MiB a second`."""
        if self.state is TransferState.FAILED:
            return f"failed: {self.error}"
        if self.state is TransferState.SKIPPED:
            return f"already there{self._amount()}"
        verb = "downloading" if self.kind == "input" else "publishing"
        if self.state is TransferState.DONE:
            verb = "downloaded" if self.kind == "input" else "published"
        speed = f", {size_text(self.bytes_per_s)} a second" if self.bytes_per_s else ""
        trouble = f"; {self.error}" if self.error else ""
        staged = "" if self.from_source is None else f", {size_text(self.from_source)} of it from its source"
        note = f"{self.note}; " if self.note and self.state is TransferState.DONE else ""
        return f"{note}{verb}{self._amount()}{speed}{staged}{trouble}"

    def _amount(self) -> str:
        parts = [
            f"{show(done)} of {show(total)}{unit}" if total is not None and done != total else f"{show(done)}{unit}"
            for done, total, show, unit in (
                (self.bytes_done, self.bytes_total, size_text, ""),
                (self.files_done, self.files_total, lambda number: f"{number:,}", " files"),
            )
            if done is not None
        ]
        took = f" in {span_text(timedelta(seconds=self.seconds))}" if self.seconds else ""
        return f": {', '.join(parts)}{took}" if parts else ""
