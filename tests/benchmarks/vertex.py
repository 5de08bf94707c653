"""Pages, lists and commands over 10,000 VMs and 20,000 resources of Vertex AI, against 30,000 plain VMs.

Each address is asked of both ledgers in turn. CPU is that of the process that serves and of PostgreSQL's together: on a
busy computer it is what the clock says on an idle one.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text, update
from tests.authenticators import ADMIT_ALL
from tests.benchmarks import vertex_fleet
from tests.benchmarks.databases import both
from tests.benchmarks.measure import Measured
from tests.benchmarks.pages import Timed, app_over, deps_over
from tests.main.two_processes import children_of
from tests.serving import serving

from costguard.api.app import create_app
from costguard.db.tables import changes
from costguard.db.transaction import Database

ADDRESSES = (
    "/",
    "/?keeper=vertex",
    "/spend",
    "/spend?group_by=label%3Acostguard-kind",
    "/budgets",
    "/prices",
    "/metrics",
    "/api/v1/instances",
    "/api/v1/instances?keeper=vertex",
    "/api/v1/spend",
    "/api/v1/spend?group_by=owner",
    "/api/v1/spend/labels/costguard-kind",
    "/api/v1/budgets",
)
COMMANDS = ("ps", "spend", "spend --by kind")
_LIFETIMES = 100_000
_ROUNDS, _CHANGES, _CALLS = 20, 5, 3
_GOAL_MS, _GOAL_P95_MS, _GOAL_CHANGED_MS = 100, 250, 150
_CLI = "from costguard.cli.app import main; main()"


@dataclass
class _Ledger:
    """A ledger, the application over it, and what it has used of CPU, in milliseconds, without this process."""

    database: Database
    timed: Timed
    client: TestClient
    others_ms: Callable[[], float]

    def look(self, address: str) -> tuple[float, float]:
        """Asks the address, and returns milliseconds of CPU and by the clock."""
        before = self.others_ms()
        answer = self.client.get(address)
        assert answer.status_code == 200, f"{address}: {answer.text[:500]}"
        return self.timed.cpu_ms + self.others_ms() - before, self.timed.ms

    def app(self) -> FastAPI:
        """Makes the application that commands talk to: it lets everyone in."""
        return create_app(deps_over(self.database, ADMIT_ALL, vertex_fleet.RULES))

    def change_everything(self) -> None:
        """Makes all that is remembered useless."""
        with self.database.write() as connection:
            connection.execute(update(changes).values(number=changes.c.number + 1))


def vertex(folder: Path, lifetimes: int = _LIFETIMES, count: int = vertex_fleet.RESOURCES) -> Iterator[Measured]:
    """Measures over what runs now: `lifetimes` ended in the year before, of which `pages` has a million."""
    with ExitStack() as stack:
        filled: dict[str, list[Database]] = {}
        for which in ("vertex", "plain"):
            for name, database in stack.enter_context(both(folder, which)):
                vertex_fleet.fill(database, lifetimes, count, is_vertex=which == "vertex")
                filled.setdefault(name, []).append(database)
        for name, databases in filled.items():
            ledgers = [_over(database) for database in databases]
            gc.collect()
            gc.freeze()  # as `serve` does; here it is the databases' filling as well
            for address in ADDRESSES:
                yield from _asked(f"{address}, {name}", address, *ledgers)
            for command in COMMANDS:
                yield from _typed(f"`costguard {command}`, {name}", command, *ledgers)


def _over(database: Database) -> _Ledger:
    app, cookies = app_over(database, rules=vertex_fleet.RULES)
    timed = Timed(app)
    others = (lambda: 0.0) if database.dialect == "sqlite" else _servers_ms(database)
    return _Ledger(database, timed, TestClient(timed, cookies=cookies), others)


def _servers_ms(database: Database) -> Callable[[], float]:
    """Returns a clock of the CPU that all processes of the PostgreSQL server have used."""
    with database.read() as connection:
        backend = connection.scalar(text("SELECT pg_backend_pid()"))
    server = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])

    def used() -> float:
        nanoseconds = 0
        for pid in children_of(server):
            schedule = Path(f"/proc/{pid}/schedstat")
            nanoseconds += int(schedule.read_text().split()[0]) if schedule.exists() else 0
        return nanoseconds / 1_000_000

    return used


def _asked(what: str, address: str, mine: _Ledger, plain: _Ledger) -> Iterator[Measured]:
    for ledger in (mine, plain):
        ledger.look(address)  # compiles the template and the statements
    again = [(*mine.look(address), plain.look(address)[0]) for _ in range(_ROUNDS)]
    changed = []
    for _ in range(_CHANGES):
        for ledger in (mine, plain):
            ledger.change_everything()
        changed.append((*mine.look(address), plain.look(address)[0]))
    cpu, wall, other = map(list, zip(*again, strict=True))
    yield Measured(f"{what}: CPU", "ms", cpu, _GOAL_MS, _GOAL_P95_MS)
    yield Measured(f"{what}: by the clock", "ms", wall)
    yield Measured(f"{what}: CPU / of plain VMs", "ratio", [median(cpu) / median(other)])
    cpu, wall, other = map(list, zip(*changed, strict=True))
    yield Measured(f"{what}, all changed: CPU", "ms", cpu, _GOAL_CHANGED_MS)
    yield Measured(f"{what}, all changed: by the clock", "ms", wall)
    yield Measured(f"{what}, all changed: CPU / of plain VMs", "ratio", [median(cpu) / median(other)])


def _typed(what: str, command: str, mine: _Ledger, plain: _Ledger) -> Iterator[Measured]:
    """Measures a command in a process of its own, with all that the server does for it meanwhile."""
    with serving(mine.app()) as mine_url, serving(plain.app()) as plain_url:
        calls = [(*_call(command, mine_url, mine), _call(command, plain_url, plain)[0]) for _ in range(_CALLS)]
    cpu, wall, other = map(list, zip(*calls, strict=True))
    yield Measured(f"{what}: CPU of command and server", "ms", cpu)
    yield Measured(f"{what}: by the clock", "ms", wall)
    yield Measured(f"{what}: CPU / of plain VMs", "ratio", [median(cpu) / median(other)])


def _call(command: str, url: str, ledger: _Ledger) -> tuple[float, float]:
    ledger.change_everything()
    before, begun, ours = _children_ms() + ledger.others_ms(), time.perf_counter(), time.process_time()
    environ = os.environ | {"COSTGUARD_URL": url}
    subprocess.run([sys.executable, "-c", _CLI, *command.split()], check=True, stdout=subprocess.DEVNULL, env=environ)
    took = (time.perf_counter() - begun) * 1000
    return _children_ms() + ledger.others_ms() - before + (time.process_time() - ours) * 1000, took


def _children_ms() -> float:
    """Returns the CPU that processes started here have used, once they ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000
