"""The boot script, with what a VM's metadata hold."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.fake_guard import PATIENCE_S, FakeGuard
from tests.agent.vm import ATTEMPT, Vm, wait_until_unlocked

from costguard.jobs.act.attempts.boot import SCRIPT, metadata_items
from costguard_vm.bundle import bundle


def run_script(vm: Vm, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **more,
        "PATH": vm.path,
        "COSTGUARD_METADATA": vm.metadata.url,
        "COSTGUARD_HOME": str(vm.home),
        "COSTGUARD_LOGS": str(vm.logs),
        "COSTGUARD_VOLATILE": str(vm.volatile),
        "COSTGUARD_WITHOUT_SYSTEMD": "yes",
    }
    return subprocess.run(
        ["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def put(vm: Vm, items: dict[str, str]) -> None:
    for name, value in items.items():
        vm.metadata.set(f"instance/attributes/{name}", value)


def attempt(vm: Vm, guard: FakeGuard, *command: str) -> dict[str, object]:
    return {
        "attempt": ATTEMPT,
        "guard": guard.url,
        "command": command,
        "workdir": str(vm.work),
        "heartbeat_s": 0.1,
        "poll_s": 0.03,
    }


@pytest.fixture
def python_of_the_vm(vm: Vm) -> None:
    (vm.tools / "python3").symlink_to(sys.executable)


@pytest.mark.usefixtures("python_of_the_vm")
def test_a_vm_that_boots_runs_its_attempt(vm: Vm, guard: FakeGuard) -> None:
    """The attempt runs from the metadata alone, without systemd; a second boot runs nothing again."""
    put(vm, metadata_items(attempt(vm, guard, "sh", "-c", "echo done"), guard.token, with_drivers=False))
    booted = run_script(vm)
    assert (booted.returncode, booted.stdout, booted.stderr) == (0, "", "")
    assert guard.wait_for("exit")["output"] == ["done"]
    wait_until_unlocked(vm.home / "agent.lock")
    assert run_script(vm).returncode == 0
    guard.wait_for("boot", count=2)
    wait_until_unlocked(vm.home / "agent.lock")
    assert guard.kinds().count("exit") == 1


@pytest.mark.usefixtures("python_of_the_vm")
@pytest.mark.parametrize(
    ("folder", "file", "before", "is_ours"),
    [
        ("google-cloud-ops-agent", "config.yaml", "", True),
        ("google-cloud-ops-agent", "config.yaml", "# logging:\n#   receivers:\n\n", True),
        ("google-cloud-ops-agent", "config.yaml", "# mine\nlogging: {}\n", False),
        ("google-fluentd/config.d", "costguard.conf", "", True),
        ("google-fluentd/config.d", "costguard.conf", "<source></source>\n", False),
    ],
)
def test_the_output_goes_to_cloud_logging_where_the_image_has_it(
    vm: Vm, guard: FakeGuard, folder: str, file: str, before: str, is_ours: bool
) -> None:
    """The logging agent gets the file's path and is restarted; a configuration of the user's stays."""
    put(vm, metadata_items(attempt(vm, guard, "true"), guard.token, with_drivers=False))
    place, restarts = vm.home.parent / "etc" / folder, vm.home.parent / "restarts"
    place.mkdir(parents=True)
    if before:
        (place / file).write_text(before)
    systemctl = vm.tools / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{restarts}\n')
    systemctl.chmod(0o755)
    assert run_script(vm, COSTGUARD_ETC=str(vm.home.parent / "etc")).returncode == 0
    guard.wait_for("exit")
    wait_until_unlocked(vm.home / "agent.lock")
    written = (place / file).read_text()
    assert (f"{vm.logs}/*.log" in written) is is_ours
    assert is_ours or written == before
    assert restarts.exists() is is_ours
    assert not is_ours or restarts.read_text() == f"restart {folder.split('/')[0]}\n"


@pytest.mark.usefixtures("python_of_the_vm")
def test_a_damaged_agent_is_not_started(vm: Vm, guard: FakeGuard) -> None:
    """The serial console says so, with both sums."""
    items = metadata_items(attempt(vm, guard, "true"), guard.token, with_drivers=False)
    put(vm, {**items, "costguard-agent-sha256": "0" * 64})
    booted = run_script(vm)
    assert booted.returncode == 1
    assert f"sha256 {hashlib.sha256(bundle()).hexdigest()}, not {'0' * 64}" in booted.stderr
    assert not (vm.home / "agent.pyz").exists()


@pytest.mark.usefixtures("python_of_the_vm")
def test_a_vm_without_our_attributes_starts_nothing(vm: Vm) -> None:
    """The script names the attribute that is missing."""
    booted = run_script(vm)
    assert booted.returncode != 0
    assert "costguard-agent" in booted.stderr


def test_an_image_without_python_says_what_to_take(vm: Vm, tmp_path: Path) -> None:
    """Nothing can run there."""
    vm.path = str(tmp_path / "bin")
    os.symlink("/bin/sh", tmp_path / "bin" / "sh")
    booted = run_script(vm)
    assert booted.returncode == 1
    assert "no python3" in booted.stderr


def test_the_items_hold_the_agent_and_fit() -> None:
    """All of it with its sum, in a small part of what Google allows; a driver only where it is wanted."""
    items = metadata_items({"attempt": "a1"}, "token", with_drivers=True, agent=b"agent")
    assert base64.b64decode(items["costguard-agent"]) == b"agent"
    assert items["costguard-agent-sha256"] == hashlib.sha256(b"agent").hexdigest()
    assert json.loads(items["costguard-attempt"]) == {"attempt": "a1"}
    assert items["install-nvidia-driver"] == "True"
    assert "install-nvidia-driver" not in metadata_items({}, "token", with_drivers=False, agent=b"agent")
    assert sum(map(len, metadata_items({}, "token", with_drivers=False).values())) < 224 << 10


def test_items_that_google_would_refuse_are_refused_before() -> None:
    """The refusal names the item that is too large."""
    with pytest.raises(ValueError, match="costguard-attempt has 3"):
        metadata_items({"command": ["x" * 300_000]}, "token", with_drivers=False, agent=b"agent")
