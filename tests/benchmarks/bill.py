"""A month's end: a detailed export of a million rows, read from a file into the database by one process."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import orjson
from tests.benchmarks.measure import Measured
from tests.benchmarks.memory import peak_mb
from tests.bill.exports import HOUR, NOON, row

from costguard.bill.reading import read_files
from costguard.db.migrate import upgrade

ROWS = 1_000_000
_VMS = 4_000
_SKUS = ("CF4E-A0C7-E3BF", "F449-33EC-A5EF", "4EAF-BF72-4069", "D973-5D65-BAB2")
_GOAL_S, _GOAL_MB = 60, 200


def bill(folder: Path, count: int = ROWS) -> Iterator[Measured]:
    """Measures reading a bill on SQLite. The file is compressed, as exports of a bucket are."""
    file, url = folder / "bill.jsonl.gz", f"sqlite:///{folder / 'bill.db'}"
    upgrade(url)
    with gzip.open(file, "wb", 1) as lines:
        lines.writelines(_rows(count))
    command = [sys.executable, "-m", "tests.benchmarks.bill", url, str(file)]
    figures = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert figures["rows"] == count
    yield Measured(f"Reading {count:,} rows of a bill, of a core", "s", [figures["cpu"]], _GOAL_S)
    yield Measured(f"Reading {count:,} rows of a bill, peak memory", "MB", [figures["peak_mb"]], _GOAL_MB)


def _rows(count: int) -> Iterator[bytes]:
    """Each VM's hours, one row for each of its SKUs, as Google exports them: hour by hour."""
    for number in range(count):
        vm, sku, hour = number // len(_SKUS) % _VMS, _SKUS[number % len(_SKUS)], number // len(_SKUS) // _VMS
        cost = f"{(number % 977 + 1) / 1_000_000:.6f}"
        fields = {"sku": {"id": sku, "description": f"Component {sku} running in Americas"}}
        start = NOON.replace(hour=0) + hour * HOUR
        exported = start + timedelta(hours=5)
        yield orjson.dumps(row(vm, start, exported, str(3600 - number % 3), cost, **fields)) + b"\n"


def _main(url: str, file: str) -> None:
    begun = time.process_time()
    read = read_files(url, [Path(file)], NOON + timedelta(days=30))
    print(json.dumps({"rows": read.row_count, "cpu": time.process_time() - begun, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
