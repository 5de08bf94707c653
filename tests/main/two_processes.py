"""A real `costguard serve` with all of its processes, over a simulated cloud in real time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.forked_guard import ForkedGuard, start

START_S = 120  # both processes import what they need, which takes a busy machine half a minute
TOKEN = "a-token-for-tests-alone"
PATIENCE_S = 60
PROJECT, ZONE = "acme-training", "us-central1-a"
_SETTINGS = """
[watch]
projects = ["{project}"]
every = "{every}"
[database]
url = "{database}"
[server]
listen = "127.0.0.1:{port}"
workers = {workers}
[compute]
endpoint = "{cloud}"
[prices]
enabled = false
[idle]
enabled = false
[enforcement]
shadow = false
[log]
format = "json"
{more}
"""


@dataclass
class Served:
    """A guard that answers at `url`. `process` watches; `web` is the process that serves pages at the moment."""

    process: subprocess.Popen[str] | ForkedGuard
    url: str
    log: Path

    @property
    def web(self) -> int:
        """Returns its id; 0 while there is none."""
        return next(iter(self.children("pages")), 0)

    @property
    def reports(self) -> int:
        """The same, of the process for agents' reports."""
        return next(iter(self.children("reports")), 0)

    def children(self, serves: str) -> list[int]:
        """Returns the ids of the processes that serve pages, or reports."""
        return [pid for pid in children_of(self.process.pid) if serves == name_of(pid)]

    def get(self, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer; 0 where there was none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            with urlopen(Request(self.url + path, data, headers), timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def text(self, path: str) -> str:
        request = Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    def events(self, name: str) -> list[dict[str, Any]]:
        """Returns the events logged under this name."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    @property
    def has_passed(self) -> bool:
        return bool((self.get("/readyz")[1] or {}).get("last_pass_at"))


def children_of(pid: int) -> list[int]:
    """The processes that this one started and that live."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(status.parent.name))
    return children


def words_of(pid: int) -> list[str]:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:  # it has just ended
        return []


def name_of(pid: int) -> str:
    """The name that a process gave itself; a fork has the command line of what it was forked from."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def served(
    folder: Path,
    cloud: str,
    *,
    port: int = 0,
    every: str = "10s",
    more: str = "",
    **environ: str,
) -> Iterator[Served]:
    """Serves a guard, killed at the end, if it still runs. Its log is all that it prints."""
    path, log = folder / "costguard.toml", folder / "guard.log"
    _write_settings(path, cloud, port=port, every=every, more=more)
    command = [sys.executable, "-c", "from costguard.cli.app import main; main()", "serve", "--config", str(path)]
    with (
        log.open("a") as out,
        subprocess.Popen(command, env=_environ(**environ), stdout=out, stderr=out, text=True) as process,
        _until_the_end(process, log) as guard,
    ):
        yield guard


@contextmanager
def forked(
    folder: Path, cloud: str, *, database: str = "", every: str = "10s", more: str = "", workers: int = 1
) -> Iterator[Served]:
    """Serves a guard as `served` does, in forks of a process that has everything imported."""
    path, log = folder / "costguard.toml", folder / "guard.log"
    _write_settings(path, cloud, database=database, every=every, more=more, workers=workers)
    log.touch()
    process = start(["serve", "--config", str(path)], _environ(), log, log)
    try:
        with _until_the_end(process, log) as guard:
            yield guard
    finally:
        process.wait()


def _write_settings(
    path: Path, cloud: str, *, database: str = "", port: int = 0, every: str, more: str = "", workers: int = 1
) -> None:
    database = database or f"sqlite:///{path.parent}/costguard.db"
    path.write_text(
        _SETTINGS.format(
            project=PROJECT, every=every, database=database, port=port, cloud=cloud, more=more, workers=workers
        )
    )


def _environ(**more: str) -> dict[str, str]:
    return {**os.environ, "COSTGUARD_TOKEN": TOKEN, **more}


@contextmanager
def _until_the_end(process: subprocess.Popen[str] | ForkedGuard, log: Path) -> Iterator[Served]:
    """Waits until the guard serves, and kills all of its processes at the end."""
    web: list[int] = []
    try:
        pause, ends = threading.Event(), time.monotonic() + START_S
        while process.poll() is None and "Costguard is at" not in log.read_text():
            assert time.monotonic() < ends, f"it did not start:\n{log.read_text()}"
            pause.wait(0.05)
        assert process.poll() is None, log.read_text()
        url = re.findall(r"Costguard is at (http://[0-9.:]+[0-9])", log.read_text())[-1]
        web = children_of(process.pid)
        yield Served(process, url, log)
    finally:
        for pid in {*web, *children_of(process.pid)}:
            if is_alive(pid):
                os.kill(pid, 9)
        process.kill()
