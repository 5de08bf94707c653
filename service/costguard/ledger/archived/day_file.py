"""A day's Parquet file in the history: the ledger's own columns in it, and how they are read.

The columns of FOCUS are for people and other engines. The ledger reads back its own, whose names begin with `x_` as
FOCUS asks of columns that it does not define. pyarrow (the extra `parquet`) is loaded when a file is read.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

from costguard.errors import Invalid, Missing
from costguard.ledger.archived.history_days import name_of
from costguard.model.ports import Archives

COST: Final = "BilledCost"
OWN: Final = (
    *("x_Preset", "x_Owner", "x_Job", "x_ProvisioningModel", "x_SpanKind", "x_SpanId", "x_PriceId"),
    *("x_StartedAt", "x_EndedAt", "x_Seconds", "x_QuantityMillis", "x_InstanceId", "x_InstanceName", "x_DiskName"),
)
NUMBERS: Final = frozenset({"x_SpanId", "x_PriceId", "x_Seconds", "x_QuantityMillis"})
MOMENTS: Final = frozenset({"x_StartedAt", "x_EndedAt"})  # in microseconds: FOCUS's own are whole seconds
_READ: Final = (*OWN, "AvailabilityZone", "SubAccountId", "SkuMeter", COST)
_AT_ONCE = 5000
_AGAIN = "Put the file back from a copy of the history; totals do not need it."


@contextmanager
def fetched(store: Archives, day: date) -> Iterator[Path]:
    """A copy of the day's file on this machine, for as long as the block lasts.

    Raises Missing where there is none, and CheckpointError where the bucket or folder cannot be read.
    """
    stored = store.find(name_of(day))
    if stored is None:
        raise Missing(f"The history has no file of {day}: {name_of(day)} is not there.", _AGAIN)
    with tempfile.NamedTemporaryFile(prefix="costguard-history-", suffix=".parquet") as copy:
        for piece in store.read(stored):
            copy.write(piece)
        copy.flush()
        yield Path(copy.name)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a day's file with the ledger's columns alone, some thousands in memory at once.

    `name` is what errors call the file. Raises Invalid where it is no file of the history, or a page of it is not what
    was written.
    """
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            if missing := sorted({*_READ} - {*file.schema_arrow.names}):
                raise Invalid(f"{name} is no file of the history: it has no column {missing[0]}.", _AGAIN)
            for batch in file.iter_batches(batch_size=_AT_ONCE, columns=list(_READ)):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise Invalid(f"{name} in the history cannot be read: {str(error)[:200]}", _AGAIN) from None
