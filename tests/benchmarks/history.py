"""A year of closed days in Parquet, generated, and what DuckDB answers about it on two cores and a gigabyte.

COSTGUARD_HISTORY_ROWS says how many charge-days there are (10 million without it), COSTGUARD_HISTORY_FOLDER where they
lie: files of an earlier run there are read again. A row takes some 36 bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from pyarrow import parquet
from tests.benchmarks.measure import Measured
from tests.benchmarks.memory import peak_mb
from tests.history_statements import over, statements

from costguard.ledger.archived.history_days import name_of
from costguard.spend.history.day_rows import NAMES, OF_A_GROUP, schema, writer_of

_ROWS = 10_000_000
_DAYS = 365
_LAST = date(2026, 11, 30)
_PROJECTS = 500
_OWNERS = 200
_PRESETS = 40
_ALL_DAY = 0.6  # of the VMs, as of a fleet that trains for days
_ROUNDS = 3
_GOAL_S, _GOAL_MB = 60, 1000
_PARTS = ("gpu:nvidia-l4", "g2:core", "g2:ram", "disk:pd-balanced")  # of each VM on each day
_RATES = (560_000, 25_000, 2_900, 137)  # nano-dollars a second of the first VM's parts
_MEMORY = "800MB"  # DuckDB's own; the process has some more


def history(folder: Path) -> Iterator[Measured]:
    rows = int(os.environ.get("COSTGUARD_HISTORY_ROWS", _ROWS))
    place = Path(os.environ.get("COSTGUARD_HISTORY_FOLDER", folder / "history"))
    begun = time.perf_counter()
    for back in range(_DAYS):
        _day(place, _LAST - timedelta(days=back), rows // _DAYS)
    wrote = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in place.glob("day=*/charges.parquet"))
    what = f"A year of {rows // _DAYS * _DAYS:,} charge-days in Parquet"
    yield Measured(f"{what}: generated and written", "s", [wrote])
    yield Measured(f"{what}: bytes of a row", "", [size / (rows // _DAYS * _DAYS)])
    statement = over(statements("DuckDB")[0], place)
    done = [_asked(statement) for _ in range(_ROUNDS)]
    yield Measured(f"{what}: by day and preset in DuckDB, two cores", "s", [one["seconds"] for one in done], _GOAL_S)
    yield Measured(f"{what}: the same, CPU of both cores", "s", [one["cpu"] for one in done])
    yield Measured(f"{what}: the same, peak memory of the process", "MB", [one["peak_mb"] for one in done], _GOAL_MB)


def _day(place: Path, day: date, rows: int) -> None:
    """Writes one day, unless it is there. Days a week apart are copies of each other: an engine reads each of them."""
    path = place / name_of(day)
    if path.exists() and parquet.ParquetFile(path).metadata.num_rows == rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if (weeks := (_LAST - day).days // 7) > 0:
        shutil.copyfile(place / name_of(day + timedelta(weeks=weeks)), path)
        return
    chance = numpy.random.default_rng(day.toordinal())
    begun = path.with_suffix(".begun")
    # Texts that repeat are handed over as such, which a Parquet file does not show.
    with writer_of(begun, _table(chance, day, 0, 1, rows).schema) as writer:
        for first in range(0, rows, OF_A_GROUP):
            table = _table(chance, day, first, min(OF_A_GROUP, rows - first), rows)
            writer.write_table(table, row_group_size=OF_A_GROUP)
    begun.replace(path)


def _table(chance: Any, day: date, first: int, count: int, rows: int) -> pyarrow.Table:
    """Rows of a day from the first on, project after project; every four are the parts of one VM's run."""
    number = numpy.arange(first, first + count)
    vm, part = number // 4, number % 4
    project = number * _PROJECTS // rows
    owner = (vm * 7 + project) % _OWNERS
    preset = (vm + project) % _PRESETS
    ran = chance.integers(60, 86_400, count // 4 + 1)
    ran[chance.random(len(ran)) < _ALL_DAY] = 86_400
    seconds = numpy.repeat(ran, 4)[:count]
    start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    began = start + (86_400 - seconds)
    nanos = seconds * numpy.array(_RATES)[part] * (1 + preset % 8)
    texts = {
        "SubAccountId": (project, [f"acme-project-{one:03}" for one in range(_PROJECTS)]),
        "x_Preset": (preset, [f"preset-{one}" for one in range(_PRESETS)]),
        "x_Owner": (owner, [f"owner-{one}@example.com" for one in range(_OWNERS)]),
        "x_ProvisioningModel": (vm % 2, ["spot", "standard"]),
        "PricingCategory": (vm % 2, ["Dynamic", "Standard"]),
        "SkuMeter": (part, list(_PARTS)),
        "x_SpanKind": (part // 3, ["lifetime", "storage"]),
    }
    texts["SubAccountName"] = texts["SubAccountId"]
    numbers = {
        "x_SpanId": vm + day.toordinal() * 1_000_000, "x_PriceId": part + 1, "x_Seconds": seconds,
        "x_QuantityMillis": numpy.full(count, 4000),
    }  # fmt: skip
    moments = {"BillingPeriodStart": start, "BillingPeriodEnd": start + 86_400 * 30, "ChargePeriodStart": began,
               "ChargePeriodEnd": began + seconds, "x_StartedAt": began, "x_EndedAt": began + seconds}  # fmt: skip
    named = numpy.char.add("vm-", numpy.arange(vm[0], vm[-1] + 1).astype(str))
    names = pyarrow.DictionaryArray.from_arrays(pyarrow.array((vm - vm[0]).astype("int32")), pyarrow.array(named))
    columns = [
        _column(field, count, nanos, texts.get(field.name), numbers.get(field.name), moments.get(field.name), names)
        for field in schema()
    ]
    return pyarrow.Table.from_arrays(columns, names=list(NAMES))


def _column(field: Any, count: int, nanos: Any, text: Any, number: Any, moment: Any, names: Any) -> Any:
    if text is not None:
        places, values = text
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(places.astype("int32")), values)
    if number is not None:
        return pyarrow.array(number)
    if moment is not None:
        micros = numpy.broadcast_to(numpy.asarray(moment) * 1_000_000, count)
        return pyarrow.array(micros).cast(field.type)
    if pyarrow.types.is_decimal(field.type):
        words = numpy.zeros((count, 2), "int64")
        words[:, 0] = nanos * 10 ** (field.type.scale - 9)
        return pyarrow.Array.from_buffers(field.type, count, [None, pyarrow.py_buffer(words)])
    if field.name in ("ResourceId", "ResourceName", "x_InstanceId", "x_InstanceName"):
        return names
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(numpy.zeros(count, "int32")), [field.name])


def _asked(statement: str) -> dict[str, float]:
    """Seconds and peak memory of a new process that asks DuckDB once."""
    command = [sys.executable, "-m", "tests.benchmarks.history", statement]
    answer: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return answer


def _ask(statement: str) -> dict[str, float]:
    import duckdb

    with duckdb.connect(config={"threads": 2, "memory_limit": _MEMORY}) as connection:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        rows = connection.execute(statement).fetchall()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
    assert len(rows) == _DAYS * _PRESETS
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps(_ask(sys.argv[1])))
