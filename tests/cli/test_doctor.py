"""`costguard doctor`, as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.typed import Typist
from tests.doctor.setup import GOOGLE, PROJECTS, DoctorSetup, set_up


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[DoctorSetup]:
    with set_up(tmp_path, GOOGLE) as made:
        (tmp_path / "costguard.toml").write_text(made.settings_text)
        yield made


@pytest.fixture
def doctor(setup: DoctorSetup, typist: Typist) -> Run:
    """`costguard doctor --config PATH ARGUMENTS`."""
    path = str(setup.folder / "costguard.toml")

    def typed(*arguments: str) -> subprocess.CompletedProcess[str]:
        return typist.type(["doctor", "--config", path, *arguments], os.environ)

    return typed


def test_lines_and_exit_codes(setup: DoctorSetup, doctor: Run) -> None:
    """Unknown alone exits 2; a need exits 1, and its command is on the next line; a part that is well exits 0."""
    done = doctor()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "unknown: Whether VMs reach http://127.0.0.1:8765 cannot be proven from here" in done.stdout
    assert doctor("--only", "permissions").returncode == 0
    setup.world.rights.withhold(PROJECTS[0], "compute.disks.list")
    done = doctor("--only", "permissions")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.startswith("needs:   ")]
    command = f"gcloud iam roles update costguard --project={PROJECTS[0]} --add-permissions=compute.disks.list"
    assert lines[number + 1].strip() == command
    assert lines[-1] == "2 ok, 1 needed, 0 unknown."


def test_json_has_a_state_for_all_and_each(setup: DoctorSetup, doctor: Run) -> None:
    """A program reads the state, the name and the command of each finding."""
    setup.world.rights.disable(PROJECTS[1], "monitoring.googleapis.com")
    done = doctor("--json", "--only", "apis")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["state"]) == (1, "needs")
    (wrong,) = [one for one in answer["findings"] if one["state"] != "ok"]
    assert (wrong["topic"], wrong["name"], wrong["where"]) == ("apis", "monitoring.googleapis.com", PROJECTS[1])
    assert wrong["command"] == f"gcloud services enable monitoring.googleapis.com --project={PROJECTS[1]}"


def test_it_changes_nothing(setup: DoctorSetup, doctor: Run) -> None:
    """No database is made, nothing at Google is changed, and no message is posted."""
    (setup.folder / "costguard.db").unlink()
    done = doctor()
    assert not (setup.folder / "costguard.db").exists()
    assert "has no tables yet; the first pass makes them." in done.stdout
    assert setup.world.changes == 0
    assert list(setup.world.slack.record) == []


def test_a_feature_that_the_settings_leave_out_is_checked_on_request(
    tmp_path: Path, setup: DoctorSetup, doctor: Run
) -> None:
    """Rules stop nothing in shadow mode, and the role for stops is needed only by people."""
    path = tmp_path / "costguard.toml"
    text = setup.settings_text.replace("shadow = false", "shadow = true").replace('guard_url = "http', '# "http')
    path.write_text(text)
    for project in PROJECTS:
        setup.world.rights.withhold(project, "compute.instances.stop")
    assert doctor("--only", "permissions").returncode == 0
    done = doctor("--only", "permissions", "--with", "stop")
    assert done.returncode == 1
    assert done.stdout.count("costguard google-role costguardStop | gcloud iam roles create") == len(PROJECTS)
