"""`serve` checks the set-up when it starts, in a thread, and the process that serves pages is sent what was found."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.doctor.setup import PROJECTS, SECRETS, set_up
from tests.waiting import until

from costguard.clock import SystemClock
from costguard.doctor.finding import SetupReport, Topic, needs
from costguard.main.doctor import examined
from costguard.processes.setup_check import SetupCheck
from costguard.processes.wire import Checked, Watcher, Wire
from costguard.settings import load

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)


def test_the_check_runs_by_itself(tmp_path: Path) -> None:
    """Nothing is there at once; what is missing is there once the check has ended."""
    with set_up(tmp_path) as made:
        made.world.rights.withhold(PROJECTS[0], "compute.disks.list")
        path = tmp_path / "costguard.toml"
        path.write_text(made.settings_text)
        check = SetupCheck(partial(examined, load(path, SECRETS), SystemClock().now))
        assert check.checked() is None
        check.start()
        until(lambda: check.checked() is not None)
    checked = check.checked()
    assert checked is not None
    assert [one.name for one in checked.findings if one.state == "needs"] == ["compute.disks.list"]


def test_a_clock_that_was_sped_up_checks_nothing(tmp_path: Path) -> None:
    """Ages by the demo's clock would be no ages."""
    with set_up(tmp_path) as made:
        path = tmp_path / "costguard.toml"
        path.write_text(made.settings_text)
        check = SetupCheck(partial(examined, load(path, SECRETS), SystemClock().now), speed=60)
        check.start()
        assert not any(thread.name == "doctor" for thread in threading.enumerate())


def test_findings_cross_the_wire() -> None:
    """The serving process has them as they were found."""
    ours, theirs = socket.socketpair()
    watching, serving = Wire(ours), Wire(theirs)
    watcher = Watcher(serving, lambda: None)
    watcher.start()
    finding = needs(Topic.APIS, "compute.googleapis.com", "It is off.", "gcloud services enable compute", "lab")
    before = watcher.setup
    assert before is None
    watching.send(Checked(as_of=AT, findings=(finding,)))
    until(lambda: watcher.setup is not None)
    assert watcher.setup == SetupReport(AT, (finding,))
    watching.close()
    ours.close()
    theirs.close()
