"""Measures what each kind of change takes a row: `python -m tests.upgrades.measure [LIFETIMES]`.

A database of this version is filled with copies of recorded rows, on SQLite and on a PostgreSQL of its own: so many
lifetimes, twice as many charges, as many events, a fifth as many storage spans, and a twentieth as many VMs. A made-up
migration for each kind of change is run and timed; `upgrade_plan` estimates from what comes out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url
from tests.postgres import shared_server
from tests.upgrades.later import with_later_migrations
from tests.upgrades.placing import place
from tests.upgrades.recordings import Recording, Table, load

from costguard.db import migrate, upgrade_plan
from costguard.db.before_baseline import LAST_BEFORE
from costguard.db.transaction import Database
from costguard.db.upgrade_plan import ChangeKind

_LIFETIMES = 1_000_000
_MICROSECONDS_A_MINUTE = 60_000_000
_STEPS = {
    "9101": (ChangeKind.INDEX, 'op.create_index("ix_charges_amount", "charges", ["amount_nanos"])'),
    "9102": (ChangeKind.UPDATE, 'op.execute("UPDATE lifetimes SET zone = upper(zone)")'),
    "9103": (ChangeKind.DROP_COLUMN, 'op.drop_column("lifetimes", "age_from")'),
    "9104": (
        ChangeKind.REWRITE,
        'with op.batch_alter_table("lifetimes") as t: t.alter_column("vcpus", type_=sa.BigInteger())',
    ),
    "9105": (
        ChangeKind.COPY,
        'op.create_table("notes", sa.Column("id", sa.BigInteger(), primary_key=True), sa.Column("text", sa.Text()))\n'
        '    op.execute("INSERT INTO notes (id, text) SELECT id, text FROM events")',
    ),
    "9106": (ChangeKind.DELETE, 'op.execute("DELETE FROM charges")'),
}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _LIFETIMES
    filled = _filled(next(one for one in load(LAST_BEFORE) if one.tables["charges"].rows), count)
    with tempfile.TemporaryDirectory(prefix="costguard-measure-") as folder, _urls(Path(folder)) as urls:
        migrations = with_later_migrations(
            Path(folder), {revision: (kind.value, f"    {body}\n") for revision, (kind, body) in _STEPS.items()}
        )
        for url in urls:
            place(filled, url)
            migrate.upgrade(url)
            plan = upgrade_plan.plan(url, migrations)
            took = [_measured(url, step, migrations) for step in plan.steps]
            print(f"{plan.dialect}: estimated {plan.lasts.total_seconds():.1f} s, took {sum(took):.1f} s", flush=True)


def _measured(url: str, step: upgrade_plan.UpgradeStep, migrations: Path) -> float:
    """Runs the step, and says what it took a row of the table that it changes."""
    rows = max(change.rows for change in step.changes)
    with closing(Database.open(url, migrating=True)) as database:
        began = time.monotonic()
        with database.write() as connection:
            migrate.upgrade_within(connection, step.revision, migrations)
        took = time.monotonic() - began
    print(f"  {step.subject}: {rows} rows in {took:.2f} s, {took / rows * 1e6:.1f} us a row", flush=True)
    return took


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
    copies("events", count, id=lambda n: n + 1, key=lambda n: f"InstanceStarted:{n}")
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
