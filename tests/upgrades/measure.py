"""Measures an upgrade from the first revision to the last: `python -m tests.upgrades.measure [LIFETIMES]`.

A database of revision 0001 is filled with copies of recorded rows, on SQLite and on a PostgreSQL of its own: so many
lifetimes, twice as many charges, as many events, a fifth as many storage spans, and a twentieth as many VMs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url
from tests.postgres import shared_server
from tests.upgrades.placing import place
from tests.upgrades.recordings import Recording, Table, load

from costguard.db import migrate, upgrade_plan

_LIFETIMES = 1_000_000
_MICROSECONDS_A_MINUTE = 60_000_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _LIFETIMES
    filled = _filled(load("0001")[0], count)
    with tempfile.TemporaryDirectory(prefix="costguard-measure-") as folder, _urls(Path(folder)) as urls:
        for url in urls:
            place(filled, url)
            plan = upgrade_plan.plan(url)
            began, began_cpu = time.monotonic(), time.process_time()
            migrate.upgrade(url)
            took, cpu = time.monotonic() - began, time.process_time() - began_cpu
            estimate = plan.lasts.total_seconds()
            print(
                f"{plan.dialect}: {count} lifetimes, {filled.size} rows, estimated {estimate:.1f} s, "
                f"took {took:.1f} s ({cpu:.1f} s of this process's CPU)",
                flush=True,
            )


def _filled(recording: Recording, count: int) -> Recording:
    """Copies differ in their keys; each VM has as many lifetimes, one after the other."""
    tables = dict(recording.tables)
    vms = max(1, count // 20)
    start = 1_700_000_000_000_000

    def copies(table: str, number: int, **columns: Any) -> None:
        original = recording.tables[table]
        row, places = original.rows[0], {original.columns.index(name): value_of for name, value_of in columns.items()}
        tables[table] = Table(
            original.columns,
            [[places[at](n) if at in places else value for at, value in enumerate(row)] for n in range(number)],
        )

    def minute(n: int) -> int:
        return start + n * _MICROSECONDS_A_MINUTE

    copies("instances", vms, id=lambda n: n + 1, gce_id=lambda n: str(10_000 + n), name=lambda n: f"vm-{n}")
    copies(
        "lifetimes",
        count,
        id=lambda n: n + 1,
        instance_id=lambda n: n % vms + 1,
        started_at=minute,
        ended_at=lambda n: minute(n + 1),
        charged_to=lambda n: minute(n + 1),
    )
    copies(
        "storage_spans",
        count // 5,
        id=lambda n: n + 1,
        instance_id=lambda n: n % vms + 1,
        name=lambda n: f"disk-{n}",
        started_at=minute,
    )
    copies(
        "charges",
        2 * count,
        span=lambda _: "lifetime",
        span_id=lambda n: n // 2 + 1,
        started_at=lambda n: minute(n // 2),
        resource=lambda n: ("a2:core", "a2:ram")[n % 2],
    )
    copies("facts", count, id=lambda n: n + 1, key=lambda n: f"InstanceStarted:{n}")
    copies(
        "daily_spend",
        max(1, count // 20),
        day=lambda n: (date(2024, 1, 1) + timedelta(days=n // 100)).isoformat(),
        owner=lambda n: f"user-{n % 100}@example.com",
    )
    return replace(recording, tables=tables)


@contextmanager
def _urls(folder: Path) -> Iterator[list[str]]:
    # The server's guardian ends after us, and still needs its folder.
    with shared_server(Path(tempfile.mkdtemp(prefix="costguard-measure-server-"))) as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE measured")
        postgresql = make_url(server).set(database="measured").render_as_string(hide_password=False)
        yield [f"sqlite:///{folder / 'measured.db'}", postgresql]


if __name__ == "__main__":
    main()
