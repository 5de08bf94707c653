"""Values of data stages: a bucket's copy of a source's data, by one listing of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

LEASE = timedelta(seconds=90)  # agents renew it every 20 s while they fetch


class StageState(StrEnum):
    FILLING = "filling"
    WHOLE = "whole"
    DELETING = "deleting"  # decided, and committed before the first object goes
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class DataStage:
    """A stage as the guard knows it, by its agents' reports.

    `size` and `files` are the source's, `staged` the bytes that were seen in the stage. `holder` names the attempt
    whose VM may fetch from the source, "" none; `note` is the SHA-256 of the note that agents may trust. `used_at` is
    when a VM last asked for it. `delete_asked_by` is the person who asked for its deletion, "" none.
    """

    digest: str
    address: str
    source: str
    size: int
    files: int
    made_at: datetime
    used_at: datetime
    state: StageState = StageState.FILLING
    staged: int = 0
    note: str = ""
    holder: str = ""
    renewed_at: datetime | None = None
    whole_at: datetime | None = None
    deleted_at: datetime | None = None
    delete_asked_by: str = ""
    error: str = ""

    @property
    def place(self) -> str:
        """Returns the folder of its objects, as a URI."""
        return f"{self.address}/{self.digest}"

    @property
    def is_there(self) -> bool:
        """Says whether its objects are stored, as far as is known."""
        return self.state is not StageState.DELETED


@dataclass(frozen=True, slots=True)
class StageReport:
    """An agent's report on an input that it takes through a stage.

    `from_source` is all bytes that its VM has fetched from the source, with those that it is about to fetch. `wants`:
    it would fetch what is missing.
    """

    digest: str
    address: str
    source: str
    size: int
    files: int
    from_source: int
    staged: int
    note: str = ""
    wants: bool = False
    is_whole: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """The answer to a report: whether the VM may use the stage, fetch from the source, and which note to trust."""

    use: bool
    fetch: bool
    note: str = ""
