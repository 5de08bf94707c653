"""The demo sets up its settings, and the simulated workspace that it joins."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.cli.conftest import serving
from tests.cli.typed import Typist
from tests.forked_guard import ForkedProgram, begin
from tests.pages import job_story
from tests.sandbox.guest.served_vms import PATIENCE_S, processes_of
from tests.waiting import freeze, until

import costguard_sandbox
from costguard.cli.demo import cloud as demo_cloud
from costguard.cli.demo.command import ADMIN, demo_settings, server_url
from costguard.cli.demo.jobs import DemoJob
from costguard.cli.demo.view import Addresses, EventLines, View
from costguard.db.transaction import Database
from costguard.errors import SettingsError
from costguard.model.reminder import Enforcement
from costguard.settings import Settings
from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

NOW = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
SECRETS = {"COSTGUARD_SLACK_TOKEN": "xoxb-1", "COSTGUARD_SLACK_SIGNING_SECRET": "5" * 32}
SCENARIO = Path(costguard_sandbox.__file__).with_name("scenarios") / "demo.toml"


@pytest.fixture
def world() -> World:
    return World(ManualClock(NOW), projects=["acme-training", "acme-research"])


@pytest.fixture
def cloud(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


def settings(*projects: str, listen: str = "127.0.0.1:8765", **environ: str) -> Settings:
    given = demo_settings(listen, "http://127.0.0.1:9", Path("/tmp"), [*projects], NOW, {**SECRETS, **environ})
    assert given.slack is not None
    return given


def test_the_demo_tells_a_whole_story_in_its_settings() -> None:
    """No quiet hours, the forgotten T4 is really stopped, and about others reminders are sent."""
    given = settings("acme-training", "acme-research")
    presets = {preset.name: preset.reminders for preset in given.preset_list()}
    assert presets["t4"].enforcement is Enforcement.STOP
    assert {presets[name].enforcement for name in presets if name != "t4"} == {Enforcement.REMIND}
    assert not given.enforcement.shadow
    assert given.reminders.quiet.starts == given.reminders.quiet.ends
    assert given.reminders.quiet.days == frozenset()
    daily = given.reminders.digests.daily
    assert daily is not None
    assert (daily.hour, daily.minute) == (1, 10)  # over midnight too


def test_the_demo_takes_any_scenario() -> None:
    """Budgets and teams name only projects that are watched, and links only addresses that are known."""
    assert settings("other-project", listen="127.0.0.1:0").slack is not None
    assert settings("acme-training").budget_list()[0].name == "training-today"


def test_what_is_wrong_is_reported_for_the_option() -> None:
    """There is no settings file to mend."""
    with pytest.raises(SettingsError, match="--listen: others could reach"):
        settings("acme-training", listen="0.0.0.0:8765")


def test_the_demo_joins_the_simulated_workspace(cloud: str, world: World) -> None:
    """The secrets open it, clicks reach the server, and each owner of a VM in the scenario is a user there."""
    secrets = demo_cloud.slack_secrets(cloud)
    demo_cloud.send_clicks(cloud, "http://127.0.0.1:8765")
    assert world.slack.interactions.request_url == "http://127.0.0.1:8765/slack/interactions"
    assert secrets["COSTGUARD_SLACK_SIGNING_SECRET"] == world.slack.interactions.signing_secret
    notifier = SlackNotifier(secrets["COSTGUARD_SLACK_TOKEN"], f"{cloud}/slack/api/")
    for owner in sorted(owners(tomllib.loads(SCENARIO.read_text()))):
        assert notifier.person_of(f"{owner}@example.com") is not None, owner
    assert notifier.channel_id("#gpu-costs")
    assert notifier.channel_id("#ml-team")


def owners(scenario: dict[str, Any]) -> set[str]:
    made = [event["instance"] for event in scenario["event"] if "instance" in event]
    return {vm["owner"] for vm in [*scenario["instance"], *made] if "owner" in vm}


@pytest.mark.long
def test_the_demos_job_loses_its_vm_and_comes_to_the_same_result(tmp_path: Path) -> None:
    """The VMs really run; its output, its steps and its end are reported, and SIGTERM leaves nothing running.

    Its one preemption comes after its first checkpoint, twelve seconds before its end.
    """
    with demo(tmp_path) as process:
        seen = read_until(process, "launched a training")
        [cloud] = re.findall(r"Slack as people see it: (\S+)/slack", seen)
        until(lambda: any(tmp_path.glob("*/checkpoints/step-*/DONE")))
        reclaim = Request(f"{cloud}/sandbox/preempt", b'{"filter": "labels.costguard-job:*"}')
        with urlopen(reclaim, timeout=PATIENCE_S) as answer:
            assert len(json.load(answer)["preempted"]) == 1
        seen += read_until(process, "uninterrupted run")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    times = re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", seen, re.MULTILINE)
    assert len(times) > 5
    assert times == sorted(times)
    for part in (
        "dana@example.com launched a training",
        "it resumes from step ",
        "train-moons: succeeded, step 150, 2 attempts",
        "It prints: finished with loss ",
        "same result as an uninterrupted run, to the last bit",
        "on 2 VMs, 1 of them preempted",
    ):
        assert part in seen
    assert what_is_left(tmp_path) == []


def test_the_printed_export_line_lets_every_command_work(tmp_path: Path, typist: Typist) -> None:
    """A newcomer pastes a whole environment: it reads, claims, keeps and stops.

    Then the cloud hangs, and the watch waits for Google: SIGTERM ends all of it still, and nothing is left behind.
    """
    with demo(tmp_path, "--steps", "0", "--speed", "1") as process:
        line = read_until(process, "export COSTGUARD_URL").rpartition("export ")[2]
        environ = dict(part.split("=", 1) for part in line.split())
        assert set(environ) == {"COSTGUARD_URL", "COSTGUARD_TOKEN", "COSTGUARD_OWNER", "COSTGUARD_PROJECT"}
        read_until(process, "debug-ana")
        for arguments in (
            ["stop", "debug-ana", "--wait"],
            ["keep", "train-vision-ben", "--hours", "2", "--wait"],
            ["claim", "instance-20261118-041207", "--wait"],
            ["disown", "notebook-cleo", "--wait"],
            ["ps"],
            ["events"],
        ):
            done = typist.type(arguments, {**os.environ, **environ})
            assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        (cloud,) = [
            pid for pid in children_of(process.pid) if "costguard_sandbox" in Path(f"/proc/{pid}/cmdline").read_text()
        ]
        try:
            freeze(cloud)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.kill(cloud, signal.SIGKILL)
    assert process.returncode == 0
    assert what_is_left(tmp_path) == []


@pytest.mark.long
def test_the_child_of_make_demo_leaves_nothing_behind_after_sigterm(tmp_path: Path) -> None:
    """The child leaves nothing behind while its VMs run either: make starts the demo itself, and signals it through its
    child.
    """
    root = Path(__file__).parents[2]
    if shutil.which("make") is None or not Path(sys.prefix, "installed").exists():
        pytest.skip("there is no make here, or make installed no environment")
    made = ["make", "-C", str(root), "demo", f"VENV={sys.prefix}"]
    with typed(tmp_path, [*made, f"ARGS=--listen 127.0.0.1:0 --scenario {_short(tmp_path)}"]) as process:
        read_until(process, "The command of job train-moons runs")
        (child,) = children_of(process.pid)
        os.kill(child, signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert what_is_left(tmp_path) == []


def what_is_left(folder: Path) -> list[object]:
    """Files and processes of a demo whose temporary directory this was."""
    return [*(path for path in folder.iterdir() if path.name != "short.toml"), *processes_of(folder)]


def children_of(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


@pytest.mark.long
def test_a_demo_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    """Neither the simulated cloud nor what runs on its VMs outlives it."""
    with demo(tmp_path) as process:
        read_until(process, "The command of job train-moons runs")
        assert len(processes_of(tmp_path)) > 2
        process.kill()
    until(lambda: not processes_of(tmp_path))


def test_a_terminal_shows_the_demos_job(sqlite_database: Database, tmp_path: Path) -> None:
    """The job's row and the last lines that it printed are shown, from the server's answer about one job."""
    job_story.tell(sqlite_database)
    out = io.StringIO()
    with serving(sqlite_database) as url:
        view = View(Addresses(url, url, "", "", "", ADMIN, ""), 60, "", threading.Event(), as_json=True)
        view.show_job(DemoJob("j7k2m9q4", tmp_path, 700), Console(file=out, width=200))
    assert "j7k2m9q4" in out.getvalue()
    assert "saved checkpoint-30000 <done>" in out.getvalue()


@given(st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 600)), max_size=40))
def test_events_are_printed_in_the_order_of_time(events: list[tuple[int, int]]) -> None:
    """The events are printed once, however late Costguard learns of them; a very late one says when it was."""
    lines, printed = EventLines(timedelta(minutes=6)), []
    moments = {number: NOW + timedelta(seconds=at) for number, (at, _) in enumerate(events)}
    for second in range(0, 2400, 10):
        now = NOW + timedelta(seconds=second)
        for number, (at, late) in enumerate(events):
            if second - 10 < at + late <= second:
                lines.add(moments[number], f"<{number}>")
        printed += lines.due(now)
    times = [line[:19] for line in printed]
    assert times == sorted(times)
    assert len(printed) == len(events)
    for number, moment in moments.items():
        (line,) = [line for line in printed if f"<{number}>" in line]
        assert f"{moment:%H:%M:%S}" in line


def test_where_there_can_be_no_job() -> None:
    """Off Linux, with too fast a clock, or where its VMs would not reach the guard: one line says so; 0 wants none."""
    reached = server_url("127.0.0.1:8765")
    assert demo_cloud.why_no_job(700, 60, reached, "linux") == ""
    assert "need Linux" in demo_cloud.why_no_job(700, 60, reached, "darwin")
    assert "--speed of 100 or less" in demo_cloud.why_no_job(700, 3600, reached, "linux")
    assert "--listen" in demo_cloud.why_no_job(700, 60, server_url("192.0.2.1:8765"), "linux")
    assert demo_cloud.why_no_job(0, 3600, "", "darwin") == ""


def test_where_vms_of_this_machine_reach_the_guard() -> None:
    """The guard is reached at the address it listens at; where it listens at all of them, at the machine's own."""
    assert server_url("127.0.0.1:8765") == "http://127.0.0.1:8765"
    assert server_url("0.0.0.0:9000") == "http://127.0.0.1:9000"
    assert server_url("[::]:9000") == "http://[::1]:9000"
    assert server_url("0.0.0.0:0") == ""
    assert demo_cloud.with_port("127.0.0.1:8765") == "127.0.0.1:8765"
    assert demo_cloud.with_port("0.0.0.0:0") == "0.0.0.0:0"
    assert not demo_cloud.with_port("127.0.0.1:0").endswith(":0")


@pytest.mark.parametrize("speed", [0.1, 1, 60, 100])
def test_the_terms_of_jobs_fit_any_speed_at_which_there_are_jobs(speed: float) -> None:
    """No VM is believed dead before its processes are, five seconds of the machine's after its notice."""
    given = demo_settings("127.0.0.1:1", "http://127.0.0.1:9", Path("/tmp"), ["acme-training"], NOW, SECRETS, speed)
    terms = given.rules().jobs.terms
    assert terms.dying.total_seconds() / speed > 5
    assert terms.silence.total_seconds() / speed > 60


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[ForkedProgram]:
    """A short story unless `options` ask for another, in a process of its own that is ended whatever happens."""
    scenario = _short(folder)
    options = options or ("--steps", "150", "--scenario", str(scenario))
    process = begin(["demo", "--listen", "127.0.0.1:0", *options], {**os.environ, "TMPDIR": str(folder)}, folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def typed(folder: Path, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A command of any program, ended whatever happens."""
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str] | ForkedProgram, wanted: str) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    seen = ""
    while wanted not in seen:
        line = process.stdout.readline()
        assert line, f"the demo ended by itself: {process.stderr.read()}\n{seen}"
        seen += line
    return seen


def _short(folder: Path) -> Path:
    scenario = folder / "short.toml"
    scenario.write_text(_SHORT)
    return scenario


_SHORT = """
projects = ["acme-training"]
[local_vms]
boot = "0s"
preemption_grace = "5s"
docker = "shim"
"""
