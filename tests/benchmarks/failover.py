"""Measures how long nobody acts after the guard that did was killed or frozen, or its database connections fell silent.

Two `costguard serve` on one database. The time runs from the signal until a VM that was made right after it is in the
ledger: the other guard took the lease over, and its first pass is done.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

from sqlalchemy import make_url
from tests.benchmarks.databases import both
from tests.benchmarks.measure import Measured
from tests.postgres import shared_server
from tests.scenario.replicas import Replica, add_vm, replica, small_world, vms_known
from tests.silent_proxy import silent_proxy

from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard_sandbox.server import running

_TRIALS = 10
_GOAL_S = 15.0
_SILENCE_GOAL_S = 30.0
_RENEWAL_S = 3.0  # trials begin anywhere between two renewals
_PATIENCE_S = 120.0


def failover(folder: Path) -> Iterator[Measured]:
    """Both databases at the same time: two pairs of guards that mostly wait."""
    with both(folder, "failover") as databases, shared_server(folder) as server, ThreadPoolExecutor(2) as pool:
        urls = {
            "SQLite": f"sqlite:///{folder}/failover.db",
            "PostgreSQL": make_url(server).set(database="failover").render_as_string(hide_password=False),
        }
        measured = [pool.submit(_trials, folder / name, urls[name], database) for name, database in databases]
        for (name, _), trials in zip(databases, measured, strict=True):
            for how, seconds in trials.result().items():
                yield Measured(f"failover of a {how} guard, {name}", "s", seconds, _GOAL_S, _GOAL_S)
    with both(folder, "silence") as [_, (_, database)], shared_server(folder) as server:
        url = make_url(server).set(database="silence").render_as_string(hide_password=False)
        seconds = _silences(folder / "silence", url, database)
        yield Measured("acting again after all connections fell silent", "s", seconds, _SILENCE_GOAL_S, _SILENCE_GOAL_S)


def _trials(folder: Path, url: str, database: Database) -> dict[str, list[float]]:
    folder.mkdir()
    world, chance, number = small_world(), random.Random(13), 0
    seconds_by_failure: dict[str, list[float]] = {"killed": [], "frozen": []}
    with running(world) as cloud, ExitStack() as ended:

        def another() -> Replica:
            nonlocal number
            number += 1
            made = ended.enter_context(replica(folder, f"guard-{number}", cloud, url))
            _until(lambda: made.ready().status == 200)
            return made

        acting, waiting = another(), another()
        for how, seconds in seconds_by_failure.items():
            for _ in range(_TRIALS):
                threading.Event().wait(1 + chance.random() * _RENEWAL_S)
                began = _killed(acting) if how == "killed" else _frozen(acting, url)
                seconds.append(_until_seen(database, lambda name: add_vm(world, name), began))
                acting, waiting = waiting, another() if how == "killed" else _thawed(acting)
                assert acting.acts
    return seconds_by_failure


def _killed(guard: Replica) -> float:
    """Kills the guard, and returns when."""
    began = time.monotonic()
    guard.process.kill()
    return began


def _frozen(guard: Replica, url: str) -> float:
    """Freezes the guard, and returns when.

    On SQLite between two writes: frozen within one it keeps the only lock, as the README says.
    """
    with closing(Database.open(url, lock_timeout=timedelta(seconds=2))) as database:
        while True:
            began = time.monotonic()
            guard.process.send_signal(signal.SIGSTOP)
            try:
                if database.dialect == "sqlite":
                    with database.write():
                        pass
                return began
            except StoreError:
                guard.process.send_signal(signal.SIGCONT)
                print("SQLite: frozen in the midst of a write; not counted", flush=True)
                threading.Event().wait(_RENEWAL_S)


def _thawed(guard: Replica) -> Replica:
    guard.process.send_signal(signal.SIGCONT)
    _until(lambda: not guard.acts and guard.ready().status == 200)
    return guard


def _silences(folder: Path, url: str, database: Database) -> list[float]:
    folder.mkdir()
    world, chance, seconds = small_world(), random.Random(14), []
    with (
        running(world) as cloud,
        silent_proxy(url) as (proxy, through),
        replica(folder, "one", cloud, through) as one,
        replica(folder, "two", cloud, through) as two,
    ):
        for _ in range(_TRIALS):
            _until(lambda: one.acts != two.acts)
            threading.Event().wait(1 + chance.random() * _RENEWAL_S)
            began = time.monotonic()
            proxy.freeze_open()
            seconds.append(_until_seen(database, lambda name: add_vm(world, name), began))
    return seconds


def _until_seen(database: Database, add: Callable[[str], None], began: float) -> float:
    vms = vms_known(database)
    add(f"made-at-{vms}")
    _until(lambda: vms_known(database) > vms)
    seconds = time.monotonic() - began
    print(f"{database.dialect}: {seconds:.1f} s", flush=True)
    return seconds


def _until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come about in {_PATIENCE_S:.0f} s")
        threading.Event().wait(0.05)
