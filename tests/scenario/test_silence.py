"""Two real guards on PostgreSQL whose connections fall silent: watching goes on, and no answer pretends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from tests.scenario.replicas import Replica, add_vm, holder, replica, small_world, vms_known
from tests.silent_proxy import SilentProxy, silent_proxy

from costguard.db.transaction import Database
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PATIENCE_S = 120  # on a busy machine; tests/benchmarks/failover.py measures how long it takes


@dataclass(frozen=True, slots=True)
class Scene:
    world: World
    proxy: SilentProxy
    guards: tuple[Replica, Replica]
    database: Database  # past the proxy

    @property
    def acting(self) -> list[Replica]:
        return [guard for guard in self.guards if guard.acts]


@pytest.fixture
def scene(tmp_path: Path, postgres_url: str) -> Iterator[Scene]:
    """Both reach the database through one proxy; the first acts."""
    world = small_world()
    with (
        running(world) as cloud,
        silent_proxy(postgres_url) as (proxy, url),
        closing(Database.open(postgres_url)) as database,
        replica(tmp_path, "first", cloud, url) as first,
    ):
        _until(lambda: first.acts and vms_known(database) == 3)
        with replica(tmp_path, "second", cloud, url) as second:
            scene = Scene(world, proxy, (first, second), database)
            _until(lambda: scene.acting == [first])
            yield scene


def _until(holds: Callable[[], bool]) -> None:
    pause, ends = threading.Event(), time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, f"it did not come about in {PATIENCE_S} s"
        pause.wait(0.2)


def test_silent_connections_are_replaced_and_the_watch_goes_on(scene: Scene) -> None:
    """Open connections fall silent and new ones work: a VM made afterwards is seen, and one replica says it acts.

    Nobody says that it acts while the database says otherwise; /readyz answers throughout; SIGTERM ends both.
    """
    scene.proxy.freeze_open()
    add_vm(scene.world, "made-in-silence")
    answers = 0

    def goes_on() -> bool:
        nonlocal answers
        for guard in scene.guards:
            before, answer, after = holder(scene.database), guard.ready(), holder(scene.database)
            answers += 1
            if answer.is_acting:
                assert str(guard.process.pid) in f"{before} {after}", "it says that it acts, and holds no lease"
        return vms_known(scene.database) == 4 and len(scene.acting) == 1

    _until(goes_on)
    assert answers
    for guard in scene.guards:
        guard.process.send_signal(signal.SIGTERM)
    for guard in scene.guards:
        assert guard.process.wait(PATIENCE_S) == 0, guard.log.read_text()


def test_database_that_never_speaks_again_ends_the_guard_for_its_supervisor(scene: Scene) -> None:
    """All connections are silent, new ones too: not ready, said quickly, until the watchdog ends the process."""
    scene.proxy.freeze_all()
    not_ready: set[int] = set()  # both end at about the same time, so both are asked in each round

    def have_ended() -> bool:
        running_guards = [guard for guard in scene.guards if guard.is_running]
        for guard in running_guards:
            with suppress(httpx2.HTTPError):  # it is ending
                answer = guard.ready()
                if answer.status == 503:
                    not_ready.add(guard.process.pid)
                    assert not answer.is_acting
        return not running_guards

    _until(have_ended)
    for guard in scene.guards:
        assert guard.process.pid in not_ready
        assert guard.process.wait(PATIENCE_S) not in (0, -signal.SIGKILL)
        assert guard.log.read_text().count("watchdog") == 1, guard.log.read_text()
