"""Two hundred readers of pages and lists at once, and the passes meanwhile: `costguard serve` over 10,000 VMs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from threading import Event

from tests.authenticators import begin_session
from tests.benchmarks import year
from tests.benchmarks.measure import Measured
from tests.benchmarks.readers_client import Crowd, Found
from tests.benchmarks.served import PROJECT, served_fleet

from costguard.access.sessions import Sessions
from costguard.clock import SystemClock
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard.model.access import Role, Via
from costguard.web.authentication import COOKIES

_VMS = 10_000
_READERS = 200  # of whom a quarter may look only, and a quarter is an admin
_SECONDS = 45.0
_PASSES = 3  # that nobody disturbs, after the first two
_GOAL_P95_S, _GOAL_RATIO, _GOAL_MB, _GOAL_REST_MB = 1.0, 1.5, 450.0, 350.0
_ROLES = (Role.VIEWER, Role.OPERATOR, Role.OPERATOR, Role.ADMIN)
_ADDRESSES = (
    "/",
    "/?preset=t4",
    "/?sort=age",
    "/?name=trainer-00021",
    "/jobs",
    "/spend",
    "/spend?group_by=owner",
    "/savings",
    "/budgets",
    "/presets",
    "/prices",
    "/events",
    "/health",
    f"/vm/{PROJECT}/4000000000000000001",
    "/api/v1/instances",
    "/api/v1/instances?sort=age",
    "/api/v1/jobs",
    "/api/v1/events",
    "/api/v1/lifetimes",
    "/api/v1/spend?group_by=preset",
    "/api/v1/budgets",
)
_SETTINGS = """
[watch]
projects = ["{project}"]
every = "10s"
[database]
url = "{url}"
[server]
listen = "127.0.0.1:{port}"
[compute]
endpoint = "{cloud}"
[prices]
enabled = false
[idle]
enabled = false
[log]
format = "json"
"""


class Guard:
    """`costguard serve` with the processes that it started, and what its log says of passes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process, self._log, self.port = process, log, port

    @property
    def passes(self) -> list[float]:
        """Returns the seconds that each pass took."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line["seconds"] for line in lines if line.get("event") == "pass"]

    def wait_for_passes(self, count: int) -> None:
        for _ in range(6000):
            if len(self.passes) >= count:
                return
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            Event().wait(0.1)
        raise AssertionError("the passes did not come")

    def served_s(self) -> float:
        """Seconds of a processor that the processes which serve have taken: those that the watching one started."""
        return sum(map(processor_s, with_children(self.process.pid)[1:] or [self.process.pid]))

    def resident_mb(self) -> float:
        """Returns the memory of all its processes together, in MiB; what they share is counted once."""
        return sum(map(resident_mb, with_children(self.process.pid)))


def readers(folder: Path, vms: int = _VMS, seconds: float = _SECONDS, history: bool = True) -> Iterator[Measured]:
    database = folder / "readers.db"
    upgrade(f"sqlite:///{database}")
    if history:
        with closing(Database.open(f"sqlite:///{database}")) as filled:
            year.fill(filled, 0)
    yield from _measured(database, vms, seconds)


def _measured(database: Path, vms: int, seconds: float) -> Iterator[Measured]:
    with served_fleet(vms) as cloud, served_guard(database, f"sqlite:///{database}", cloud) as guard:
        guard.wait_for_passes(2 + _PASSES)
        undisturbed, idle_mb = guard.passes[2:], guard.resident_mb()
        passes_before, served = len(guard.passes), guard.served_s()
        figures, peak = _crowd(guard, database, seconds)
        served = guard.served_s() - served
        disturbed = guard.passes[passes_before:]
        guard.wait_for_passes(len(guard.passes) + 2)  # and it has had the time to give back what it took
        after = guard.resident_mb()
    who = f"{_READERS} readers at once, {vms:,} VMs"
    wrong = sum(figures["errors"].values())
    share = figures["cpu"] / figures["took"]
    yield Measured(f"{who}: answers a second (the clients took {share:.2f} of a core)", "", [_rate(figures)])
    cost = [1000 * served / len(figures["seconds"])]
    yield Measured(f"{who}: processor time of an answer (in all {served / figures['took']:.2f} of a core)", "ms", cost)
    yield Measured(f"{who}: errors {figures['errors'] or ''}".strip(), "", [wrong], 0)
    yield Measured(f"{who}: an answer", "s", figures["seconds"], goal=_GOAL_P95_S, goal_p95=_GOAL_P95_S)
    yield Measured(f"{who}: each one's first answer, nothing being kept", "s", figures["first"])
    yield Measured(f"{who}: the health check meanwhile", "s", figures["health"])
    yield Measured(f"{who}: a pass before", "s", undisturbed)
    if disturbed:
        ratio = median(disturbed) / median(undisturbed)
        yield Measured(f"{who}: a pass meanwhile / before", "", [ratio], _GOAL_RATIO)
    yield Measured("Memory of all processes before", "MB", [idle_mb], _GOAL_REST_MB)
    yield Measured("Memory of all processes meanwhile, at most", "MB", [peak], _GOAL_MB)
    yield Measured("Memory of all processes two passes after", "MB", [after], _GOAL_REST_MB)
    yield Measured("The write-ahead log after", "MB", [wal_mb(database)])


def _crowd(guard: Guard, database: Path, seconds: float) -> tuple[Found, float]:
    """Returns what the readers found, and the most memory meanwhile."""
    crowd = Crowd(port=guard.port, readers=people(f"sqlite:///{database}"), addresses=list(_ADDRESSES), seconds=seconds)
    command = [sys.executable, "-m", "tests.benchmarks.readers_client"]
    peak = 0.0
    with (
        database.with_suffix(".found").open("w+") as written,  # more than a pipe holds
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=written, text=True) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(json.dumps(crowd))
        process.stdin.close()
        while process.poll() is None:
            peak = max(peak, guard.resident_mb())
            Event().wait(0.5)
        written.seek(0)
        figures: Found = json.load(written)
    return figures, peak


def people(url: str) -> list[str]:
    """The header by which each is known: sessions in the same database, as signing in makes them."""
    with closing(Database.open(url)) as opened:
        sessions = Sessions(opened, SystemClock(), timedelta(hours=12))
        cookies = [
            begin_session(opened, sessions, f"person-{number}@lab.example", Via.LINK, _ROLES[number % len(_ROLES)])[1]
            for number in range(_READERS)
        ]
    return [f"Cookie: {COOKIES[1]}={cookie}" for cookie in cookies]


@contextmanager
def served_guard(files: Path, url: str, cloud: str, more: str = "") -> Iterator[Guard]:
    """`costguard serve` on the database at this URL; its settings, with `more` of them, and its log lie at `files`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings, log = files.with_suffix(".toml"), files.with_suffix(".log")
    settings.write_text(_SETTINGS.format(project=PROJECT, url=url, port=port, cloud=cloud) + more)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
    command = [sys.executable, "-c", "from costguard.cli.app import main; main()", "serve", "--config", str(settings)]
    with (
        log.open("wb") as written,
        subprocess.Popen(command, stdout=written, stderr=written, env=environ) as process,
    ):
        try:
            yield Guard(process, log, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _rate(figures: Found) -> float:
    return len(figures["seconds"]) / figures["took"]


def with_children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    try:
        children = [
            int(pid_of_child) for task in tasks.iterdir() for pid_of_child in (task / "children").read_text().split()
        ]
    except OSError:  # it has just ended
        return []
    return [pid, *(descendant for child in children for descendant in with_children(child))]


def resident_mb(pid: int) -> float:
    """Returns the memory of a process, in MiB, with its part of what it shares: Pss of proc(5); 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    share = re.search(r"^Pss:\s+(\d+)", lines, re.MULTILINE)
    return int(share[1]) / 1024 if share else 0.0


def processor_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wal_mb(database: Path) -> float:
    log = Path(f"{database}-wal")
    return log.stat().st_size / 2**20 if log.exists() else 0.0
