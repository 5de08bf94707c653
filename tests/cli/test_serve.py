"""The commands that run something, as a person runs them: processes of their own against the simulated cloud."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.cli.typed import Typist
from tests.scenario.fleet import body
from tests.upgrades.placing import put_back

from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.db import lease as leases
from costguard.db.migrate import upgrade
from costguard.db.transaction import Database
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.scenarios.scenario import build, read
from costguard_sandbox.server import running
from costguard_sandbox.world import World

COSTGUARD = Path(sys.executable).with_name("costguard")
LONGEST_S = 240  # no rule of the product: a busy machine may take long over anything

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cloud() -> Iterator[str]:
    """A simulated cloud in real time, with one VM that is being made."""
    world = World(ScaledClock(), projects=["acme-training"])
    zone = "us-central1-a"
    world.insert("acme-training", zone, body("trainer", zone, "a2-highgpu-1g", labels={"owner": "ana"}))
    with running(world) as url:
        yield url


@pytest.fixture
def config(cloud: str, tmp_path: Path) -> Path:
    return settings(tmp_path, cloud)


def settings(folder: Path, cloud: str, *projects: str) -> Path:
    path = folder / "costguard.toml"
    path.write_text(
        f"""
[watch]
projects = {json.dumps(projects or ["acme-training"])}
every = "10s"
[database]
url = "sqlite:///{folder}/costguard.db"
[server]
listen = "127.0.0.1:0"
[compute]
endpoint = "{cloud}"
[prices]
endpoint = "{cloud}"
"""
    )
    return path


@pytest.fixture
def run(typist: Typist) -> Run:
    """`costguard COMMAND` with these settings, until it ends."""
    return partial(typed, typist)


def typed(typist: Typist, *command: str, config: Path) -> subprocess.CompletedProcess[str]:
    return typist.type(command, {**os.environ, "COSTGUARD_CONFIG": str(config)})


@contextmanager
def started(*command: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that goes on, and the line that it printed first; ended at the end, whatever happens."""
    environ = {**os.environ, "COSTGUARD_CONFIG": str(folder / "costguard.toml")}
    process = subprocess.Popen(
        [str(COSTGUARD), *command], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, process.communicate(timeout=30)
        yield process, line
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address(line: str) -> str:
    match = re.search(r"http://[0-9.]+:\d+", line)
    assert match, line
    return match[0]


def test_a_pass_tells_what_it_saw_recorded_decided_and_did(run: Run, config: Path) -> None:
    """The result is in words, and as JSON by a Python of its own; the second pass records nothing that the
    first did.
    """
    done = run("pass", config=config)
    assert done.returncode == 0, done.stderr
    for part in ("Saw", "Recorded", "Decided", "Did", "trainer", "owner ana", "no reminder is due"):
        assert part in done.stdout
    again = json.loads(subprocess.check_output([str(COSTGUARD), "pass", "--json", "--config", str(config)]))
    assert [project["seen"] for project in again["projects"]] == [1]
    assert again["decisions"][0]["name"] == "trainer"
    assert again["actions"] == []


def test_a_pass_measures_too(run: Run, tmp_path: Path) -> None:
    """A guard that is run by cron knows who is idle as a daemon does."""
    text = """
projects = ["acme-training"]
[[instance]]
project = "acme-training"
name = "forgotten"
zone = "us-central1-a"
machine_type = "n1-standard-4"
gpu = "nvidia-tesla-t4"
load = "idle"
started = "5h ago"
"""
    with running(build(read(text, Path("one.toml")), ScaledClock())) as url:
        config = settings(tmp_path, url)
        assert run("pass", config=config).returncode == 0
        output = run("pass", config=config).stdout
    assert ", idle for " in output


def test_a_project_that_does_not_exist(run: Run, cloud: str, tmp_path: Path) -> None:
    """It is named with what to do, the other project is recorded, and the exit code tells a script."""
    done = run("pass", config=settings(tmp_path, cloud, "acme-training", "acme-typo-project"))
    assert done.returncode == 1
    assert re.search("acme-training: 1 VM, [01] running", done.stdout)  # it comes up meanwhile, in real time
    assert "not read: all of it (not_found)" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_pass_leaves_the_work_to_a_daemon(run: Run, config: Path, tmp_path: Path) -> None:
    """While a daemon holds the lease, nothing else records."""
    url = f"sqlite:///{tmp_path}/costguard.db"
    upgrade(url)
    database = Database.open(url)
    leases.acquire(database, LEASE, "a daemon", LEASE_TTL)
    database.close()
    done = run("pass", config=config)
    assert (done.returncode, done.stdout) == (1, "")
    assert "holds the lease" in done.stderr
    assert "costguard ps" in done.stderr


def test_a_port_that_is_taken(run: Run, config: Path, cloud: str) -> None:
    """The address, the reason and the way out, and no traceback."""
    done = run("serve", "--listen", cloud.removeprefix("http://"), config=config)
    assert done.returncode == 1
    assert "cannot listen at" in done.stderr
    assert "or with --listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_demo_at_a_port_that_is_taken(run: Run, cloud: str, tmp_path: Path) -> None:
    """The same message and exit code as of `serve`, and no demo that runs on without an address."""
    done = run("demo", "--listen", cloud.removeprefix("http://"), config=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot listen at" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_an_address_that_is_none(run: Run, tmp_path: Path, command: str) -> None:
    """Wrong usage names the option, before any settings are read."""
    done = run(command, "--listen", "foo", config=tmp_path)
    assert done.returncode == 2
    assert "--listen" in done.stderr
    assert "'foo' is not an IP address and a port" in done.stderr


def test_a_demo_that_others_could_reach(run: Run, tmp_path: Path) -> None:
    """It is refused without a token, in the words of the option: the demo has no settings file to mend."""
    done = run("demo", "--listen", "0.0.0.0:0", config=tmp_path)
    assert done.returncode == 1
    assert "--listen: others could reach 0.0.0.0:0; expected a token in COSTGUARD_TOKEN" in done.stderr
    assert "config check" not in done.stderr


def test_the_database_is_brought_to_this_version(run: Run, config: Path, tmp_path: Path) -> None:
    """`db check` changes nothing and says what to do; `db upgrade` does it."""
    url = f"sqlite:///{tmp_path}/costguard.db"
    upgrade(url)
    with closing(Database.open(url)) as database, database.write() as connection:
        put_back(connection)
    before = run("db", "check", config=config)
    assert before.returncode == 1
    assert "costguard db upgrade" in before.stderr
    assert run("db", "upgrade", config=config).returncode == 0
    assert run("db", "check", config=config).returncode == 0


def test_a_demo_under_make_shows_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """It prints its addresses and a fleet with owners, rates and dollars, and an owner hears of a VM in Slack.

    The terminal interrupts make, the guard and the simulated cloud at once; all end, and nobody reports an error.
    """
    (tmp_path / "Makefile").write_text(f"demo:\n\t@exec {COSTGUARD} demo --listen 127.0.0.1:0 --steps 0\n")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "COSTGUARD_"))}
    made = subprocess.Popen(
        ["make", "-C", str(tmp_path), "--no-print-directory", "demo"],
        env=plain,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert made.stdout is not None
        seen = ""
        reminded = "Reminder 1 about debug-ana was sent to ana@example.com"
        wanted = ("Slack as people see it: http://", "ana@example.com (label)", "unclaimed", "over by", reminded)
        while not all(part in seen for part in wanted):  # the first table may come before all projects were read
            line = made.stdout.readline()
            assert line, f"the demo ended by itself\n{seen}"
            seen += line
        os.killpg(made.pid, signal.SIGINT)
        _, errors = made.communicate(timeout=LONGEST_S)
    finally:
        if made.poll() is None:
            os.killpg(made.pid, signal.SIGKILL)
            made.communicate()
    assert "Open it in a browser" in seen
    assert errors == ""  # neither "make: *** Error" nor a traceback
    with pytest.raises(OSError, match="refused"):
        urlopen(address(seen.partition("Slack as people see it")[2]), timeout=30)


def test_the_sandbox_alone(run: Run, tmp_path: Path) -> None:
    """The sandbox runs with a file, at a port, and with VMs that run; a wrong scenario is reported and nothing
    starts.
    """
    disks = tmp_path / "disks"
    with (
        started("sandbox", "empty", "--port", "0", "--vms-folder", str(disks), folder=tmp_path) as (_, line),
        urlopen(f"{address(line)}/sandbox/clock", timeout=LONGEST_S) as answer,
    ):
        assert json.load(answer)["speed"] == 1.0
        assert disks.is_dir()
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('title = "x"\n')
    done = run("sandbox", str(wrong), config=wrong)
    assert done.returncode == 2
    assert "wrong.toml: projects: expected a list" in done.stderr
