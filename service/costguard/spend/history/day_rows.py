"""Writes a day of the history as Parquet: the columns of FOCUS, and the ledger's own, with pyarrow.

Costs are decimals with nine places in eight bytes, which is BigQuery's NUMERIC; no amount is a float. Rows come project
after project, so that a reader of one project skips the groups of rows of all others by their statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from costguard.errors import Invalid
from costguard.ledger.archived.day_file import COST, MOMENTS, NUMBERS, OWN
from costguard.ledger.charged.charges_of import SpanCharge
from costguard.spend.focus import COLUMNS, DECIMALS, TIMES, VERSION, FocusCharge, focus_row

NAMES: Final = (*COLUMNS, *OWN)
_COSTS: Final = frozenset({"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"})
_RATES: Final = frozenset({"ContractedUnitPrice", "ListUnitPrice"})
_AT_ONCE = 10_000  # rows of Python's values in memory
OF_A_GROUP = 100_000  # rows of one group: DuckDB reads groups of about this many on each core
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """Rows in the file, and the sum of their costs in nano-dollars."""

    rows: int
    nanos: int


def history_row(one: SpanCharge, charged: FocusCharge, billing_account: str) -> Row:
    """The values of NAMES for a stored charge, or a part of it."""
    whose, part = charged.attribution, charged.charge
    own = (
        *(whose.preset, whose.owner, whose.job, charged.provisioning_model.value, one.kind, one.span_id),
        *(part.price_id, part.started_at, part.ended_at, part.seconds, one.quantity_millis),
        *(one.key.gce_id, one.name, one.disk),
    )
    return (*focus_row(charged, billing_account), *own)


def schema() -> Any:
    import pyarrow

    def kind(name: str) -> Any:
        if name in _COSTS or name in _RATES:
            return pyarrow.decimal128(18, 9)
        if name in DECIMALS:
            return pyarrow.decimal128(38, 12)
        if name in NUMBERS:
            return pyarrow.int64()
        if name in TIMES or name in MOMENTS:
            return pyarrow.timestamp("us", tz="UTC")
        return pyarrow.string()

    metadata = {"costguard": json.dumps({"format": 1, "focus": VERSION})}
    return pyarrow.schema([(name, kind(name)) for name in NAMES], metadata=metadata)


def writer_of(path: Path, columns: Any) -> Any:
    """A writer of one file in the form that the history has, for a schema like that of `schema`."""
    from pyarrow import parquet

    return parquet.ParquetWriter(
        path, columns, compression="zstd", store_decimal_as_integer=True, write_page_checksum=True
    )


def write(rows: Iterator[Row], path: Path) -> Written:
    """Writes a file of rows in the order of their projects, some thousands in memory as values at once."""
    import pyarrow

    columns, place, count, nanos = schema(), NAMES.index(COST), 0, 0
    parts: list[Any] = []
    with writer_of(path, columns) as writer:

        def put() -> None:
            if parts:
                table = pyarrow.concat_tables(parts).combine_chunks()
                writer.write_table(table, row_group_size=OF_A_GROUP)
                parts.clear()

        while some := list(islice(rows, _AT_ONCE)):
            count += len(some)
            nanos += sum(int(row[place].scaleb(9)) for row in some)
            values = zip(*some, strict=True)
            arrays = [pyarrow.array(column, field.type) for column, field in zip(values, columns, strict=True)]
            parts.append(pyarrow.Table.from_arrays(arrays, schema=columns))
            if sum(part.num_rows for part in parts) >= OF_A_GROUP:
                put()
        put()
    return Written(count, nanos)


def measured(path: Path, name: str) -> Written:
    """Reads a file back, every page against its checksum. Raises Invalid where it cannot be read."""
    import pyarrow
    from pyarrow import ArrowException, compute, parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            if file.schema_arrow.names != list(NAMES):
                raise Invalid(f"{name} has other columns than this version writes.", "Write the day again.")
            total, nanos = 0, 0
            for batch in file.iter_batches(batch_size=OF_A_GROUP):
                total += batch.num_rows
                costs = batch.column(COST).cast(pyarrow.decimal128(38, 9))
                nanos += int((compute.sum(costs).as_py() or 0) * 10**9)
    except (ArrowException, OSError) as error:
        raise Invalid(f"{name} cannot be read back: {str(error)[:200]}", "It is written again.") from None
    return Written(total, nanos)
