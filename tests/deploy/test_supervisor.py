"""The guard and systemd talk over real sockets, from a real `costguard serve`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from costguard.processes.supervisor import Supervisor
from costguard.settings.environment import DATABASE, SLACK_TOKEN, TOKEN, read_secrets

PATIENCE = 60


@pytest.fixture
def notices(tmp_path: Path) -> Iterator[socket.socket]:
    """Makes a socket where a supervisor listens; its address is a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        yield listener


def test_notifications_reach_a_socket_with_a_path(notices: socket.socket) -> None:
    """The notifications are as man 3 sd_notify has them, one datagram each."""
    supervisor = Supervisor({"NOTIFY_SOCKET": notices.getsockname(), "WATCHDOG_USEC": "30000000"}, pid=7)
    supervisor.ready()
    supervisor.alive()
    supervisor.stopping()
    assert [notices.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]
    assert supervisor.watchdog == timedelta(seconds=30)


def test_notifications_reach_an_abstract_socket() -> None:
    """The name begins with @ in the environment, and with a NUL on the socket."""
    name = f"costguard-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        listener.settimeout(PATIENCE)
        Supervisor({"NOTIFY_SOCKET": f"@{name}"}, pid=7).ready()
        assert listener.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    "environ", [{}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "soon"}, {"NOTIFY_SOCKET": ""}]
)
def test_no_watchdog_means_no_sign_of_life(environ: dict[str, str], notices: socket.socket) -> None:
    """The watchdog is missing, set for another process, or not a number of microseconds."""
    supervisor = Supervisor({"NOTIFY_SOCKET": notices.getsockname(), **environ}, pid=7)
    supervisor.alive()
    supervisor.stopping()
    assert supervisor.watchdog is None
    assert environ.get("NOTIFY_SOCKET") == "" or notices.recv(100) == b"STOPPING=1"


def test_a_supervisor_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    """The guard works on; systemd acts on its own."""
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")}, pid=7).ready()


def test_a_served_guard_is_ready_then_lives_then_stops(notices: socket.socket, tmp_path: Path) -> None:
    """The signs of life come, in this order, from the job that keeps the lease."""
    settings = tmp_path / "costguard.toml"
    settings.write_text(
        f'[database]\nurl = "sqlite:///{tmp_path}/ledger.db"\n'
        '[server]\nlisten = "127.0.0.1:0"\n[prices]\nenabled = false\n'
        '[watch]\nprojects = ["ml-lab-prod"]\n[compute]\nendpoint = "http://127.0.0.1:9"\n',
        "utf-8",
    )
    environ = {**os.environ, "NOTIFY_SOCKET": notices.getsockname(), "WATCHDOG_USEC": "120000000"}
    environ.pop("WATCHDOG_PID", None)
    command = [sys.executable, "-c", "from costguard.cli.app import main; main()", "serve", "--config", str(settings)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=environ, stdout=log, stderr=log) as guard:
        try:
            notifications = {notices.recv(100)}
            while len(notifications) < 2:  # on a busy computer several signs of life come before the first answer
                notifications.add(notices.recv(100))
            guard.send_signal(signal.SIGTERM)
            last = notices.recv(100)
            while last == b"WATCHDOG=1":
                last = notices.recv(100)
            assert guard.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
        finally:
            guard.kill()
    assert (notifications, last) == ({b"READY=1", b"WATCHDOG=1"}, b"STOPPING=1")


def test_secrets_come_from_the_folder_of_credentials(tmp_path: Path) -> None:
    """LoadCredential= in the unit puts each into a file with the variable's name; a variable that is set wins."""
    (tmp_path / TOKEN).write_text("from-a-credential-file\n")
    (tmp_path / DATABASE).write_text("sqlite:///credential.db")
    (tmp_path / SLACK_TOKEN).write_text("xoxb-not-asked-for")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), DATABASE: "sqlite:///variable.db"}
    secrets, problems = read_secrets({}, environ)
    assert problems == []
    assert secrets == {TOKEN: "from-a-credential-file", DATABASE: "sqlite:///variable.db"}


def test_unit_lets_the_serving_process_end_without_the_watch() -> None:
    """OOMPolicy=stop, systemd's default, would end both when the kernel kills one (man 5 systemd.service)."""
    unit = (Path(__file__).resolve().parents[2] / "deploy" / "costguard.service").read_text().splitlines()
    assert {"OOMPolicy=continue", "KillMode=mixed", "NotifyAccess=main"} <= set(unit)
    # Later lines add to what earlier ones took away (man 5 systemd.exec): @resources holds what os.nice calls.
    assert unit.index("SystemCallFilter=~@privileged @resources") < unit.index("SystemCallFilter=setpriority")
