"""FOCUS rows as a Parquet file, with pyarrow (the extra `parquet`), which is loaded only here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from costguard.spend.focus import COLUMNS, DECIMALS, TIMES, Value

_OF_A_GROUP = 20_000  # rows


def is_there() -> bool:
    return find_spec("pyarrow") is not None


def write(rows: Iterator[tuple[Value, ...]], path: Path) -> None:
    """Row group by row group, so that a year of a large fleet does not fill the memory."""
    import pyarrow
    from pyarrow import parquet

    def kind(name: str) -> Any:
        if name in DECIMALS:
            return pyarrow.decimal128(38, 12)
        return pyarrow.timestamp("s", tz="UTC") if name in TIMES else pyarrow.string()

    schema = pyarrow.schema([(name, kind(name)) for name in COLUMNS])
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(rows, _OF_A_GROUP)):
            columns = [
                pyarrow.array(values, schema.field(place).type) for place, values in enumerate(zip(*some, strict=True))
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
