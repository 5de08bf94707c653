"""A guard, a simulated cloud whose VMs really run, and a small training: what a job's owner would see of them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sqlalchemy import update
from tests.ports import free_port
from tests.sandbox.guest.served_vms import processes_of
from tests.scenario import guard_process
from tests.scenario.fleet import price_list
from tests.transfer_priority import put_chrt
from tests.web_forks import FORKS

from costguard.db.lease import database_time
from costguard.db.tables import leases
from costguard.db.transaction import Database
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.guest.local import LocalGuestSettings
from costguard_sandbox.scenarios import training
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT, OWNER = "acme-training", "ana@example.com"
SPEED = 60.0
PATIENCE_S = 90.0
_SILENCE = "6h"  # of the fleet's clock: six minutes, for a busy machine may keep an agent from speaking
_NO_PRICES = "[prices]\nenabled = false"
_UP = frozenset({Status.PROVISIONING, Status.STAGING, Status.RUNNING, Status.STOPPING})


class TrainingWorld:
    """`grace_s` is what a VM has between its notice and the end of its power."""

    def __init__(
        self,
        world: World,
        cloud: str,
        folder: Path,
        more_settings: str = "",
        silence: str = _SILENCE,
        prices: str = _NO_PRICES,
    ) -> None:
        self.world = world
        self.folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._settings = folder / "costguard.toml"
        self.database = f"sqlite:///{folder}/costguard.db"
        self._settings.write_text(_settings(self.database, cloud, self._port, more_settings, silence, prices))
        self._guard: BaseProcess | None = None
        self._pause = threading.Event()

    def start_guard(self) -> None:
        log = self.folder / "guard.log"
        self._guard, url = guard_process.begin(self._settings, log)
        assert url == self.url, log.read_text()

    def end_guard(self, how: int = signal.SIGTERM) -> None:
        """Ends the guard with SIGKILL. The next one may act at once: the dead one's lease is not waited for."""
        if self._guard is None:
            return
        assert self._guard.pid is not None
        os.kill(self._guard.pid, how)
        self._guard.join(PATIENCE_S)
        assert self._guard.exitcode is not None, "the guard does not end"
        self._guard = None
        if how == signal.SIGKILL:
            with closing(Database.open(self.database)) as database, database.write() as connection:
                connection.execute(update(leases).values(expires_at=database_time(connection)))

    @property
    def guard_pids(self) -> list[int]:
        """Returns the ids of the guard and of what serves for it, without the process that forks these."""
        assert self._guard is not None
        children = Path(f"/proc/{self._guard.pid}/task").glob("*/children")
        pids = [int(pid) for one in children for pid in one.read_text().split()]
        serving = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() != FORKS]
        return [self._guard.pid or 0, *serving]

    @property
    def ready(self) -> dict[str, Any]:
        """Returns the answer of /readyz."""
        request = urllib.request.Request(f"{self.url}/readyz")
        request.add_header("Authorization", f"Bearer {guard_process.TOKEN}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            readiness: dict[str, Any] = json.load(answer)
        return readiness

    def kill(self) -> None:
        """The process ends wherever it is, and another one goes on."""
        self.end_guard(signal.SIGKILL)
        self.start_guard()

    def ask(self, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, {"Content-Type": "application/json"})
        request.add_header("Authorization", f"Bearer {guard_process.TOKEN}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read()
            text = f"{error.reason}: {said.decode('utf-8', 'replace')}"
            raise urllib.error.HTTPError(error.url, error.code, text, error.headers, io.BytesIO(said)) from None

    def launch(self, *more: str, key: str = "key-1", home: str = "", **body: Any) -> str:
        """The id of a job that trains; `more` are options of the training, `home` the folder of what it writes."""
        checkpoints = self.folder / home / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, training.__file__, "--checkpoints", str(checkpoints)]
        command += ["--result", str(self.folder / home / "result.json"), *more]
        job_request = {
            "preset": "t4",
            "owner": OWNER,
            "command": command,
            "checkpoint": {
                "location": f"file://{checkpoints}",
                "framework": "marker",
                "pattern": "step-{step}/",
                "marker": "DONE",
                "resume": "--from_checkpoint {checkpoint}",
            },
            **body,
        }
        return str(self.ask("jobs", job_request, Idempotency_Key=key)["job"]["id"])

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    def step(self, number: int, home: str = "") -> Path:
        return self.folder / home / "checkpoints" / f"step-{number}"

    def wait(self, until: Callable[[], object], what: str) -> None:
        """Looks ten times a second: what happens in other processes rings no bell here."""
        for _ in range(int(PATIENCE_S * 10)):
            if until():
                return
            self._pause.wait(0.1)
        log = (self.folder / "guard.log").read_text()[-3000:]
        raise AssertionError(f"waited {PATIENCE_S:g} s in vain until {what}\n{log}\n{self._where_jobs_stand()}")

    def _where_jobs_stand(self) -> str:
        """Returns the job's attempts and the last words of its VMs, for a test that waited in vain."""
        said = [f"{path.name}: {path.read_text()[-1500:]}" for path in self.folder.glob("vms/serial-port-*.log")]
        with suppress(OSError, ValueError):
            said += [json.dumps(self.ask(f"jobs/{one['id']}")) for one in self.ask("jobs")["jobs"]]
        return "\n".join(said)

    def wait_for_state(self, job: str, state: str) -> dict[str, Any]:
        self.wait(lambda: self.ask(f"jobs/{job}")["job"]["state"] == state, f"the job is {state}")
        job_detail: dict[str, Any] = self.ask(f"jobs/{job}")
        return job_detail

    @property
    def vms(self) -> list[VM]:
        """All that ever were, the oldest first."""
        return self.world.every_vm()

    @property
    def up(self) -> list[VM]:
        return [vm for vm in self.vms if vm.status in _UP]

    def preempt(self) -> None:
        (vm,) = [vm for vm in self.up if vm.status is Status.RUNNING]
        self.world.preempt(PROJECT, vm.name)

    def wait_until_nothing_bills(self) -> None:
        self.wait(lambda: not [vm for vm in self.vms if vm.status is not Status.DELETED], "all VMs are gone")


@contextmanager
def ground(
    folder: Path,
    grace_s: float = 3.0,
    more_settings: str = "",
    path: str = "",
    own_folders: tuple[Path, ...] = (),
    silence: str = _SILENCE,
    speed: float = SPEED,
    bills: bool = False,
) -> Iterator[TrainingWorld]:
    """`more_settings` go on with the table [jobs]; `path` is the VMs' PATH, `own_folders` are theirs alone.

    With `bills` the guard reads the simulated cloud's prices, so that the ledger and that cloud's bill compare.
    """
    grace = timedelta(seconds=grace_s)
    machines = LocalGuestSettings(
        folder / "vms",
        boot=timedelta(0),
        preemption_grace=grace,
        stop_grace=grace,
        docker="shim",
        path=path or f"{put_chrt(folder / 'bin')}:{os.environ['PATH']}",
        own_folders=own_folders,
    )
    world = World(ScaledClock(speed=speed), projects=[PROJECT], local_guests=machines)
    if bills:
        world.prices = price_list()
    with running(world) as cloud:
        prices = f'[prices]\nendpoint = "{cloud}"' if bills else _NO_PRICES
        made = TrainingWorld(world, cloud, folder, more_settings, silence, prices)
        made.start_guard()
        try:
            yield made
        finally:
            made.end_guard()
    assert processes_of(folder / "vms") == []


def uninterrupted(folder: Path, *more: str) -> str:
    """The result of the same training, run at once from its beginning to its end."""
    result = folder / "uninterrupted.json"
    places = ["--checkpoints", str(folder / "others"), "--result", str(result), "--step-seconds", "0"]
    subprocess.run([sys.executable, training.__file__, *places, *more], stdout=subprocess.DEVNULL, check=True)
    return result.read_text()


def _settings(database: str, cloud: str, port: int, more: str, silence: str, prices: str) -> str:
    return f"""
[watch]
projects = ["{PROJECT}"]
every = "10s"
[database]
url = "{database}"
[server]
listen = "127.0.0.1:{port}"
[compute]
endpoint = "{cloud}"
{prices}
[idle]
enabled = false
[jobs]
guard_url = "http://127.0.0.1:{port}"
silence = "{silence}"
stalled = "1d"
{more}
[presets.t4.launch]
zones = ["us-central1-a", "us-central1-b", "us-central1-c"]
[log]
level = "info"
"""
