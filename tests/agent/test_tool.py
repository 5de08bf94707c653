"""Programs that the agent needs on its VM: the VM's own, or those that the guard serves."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard

from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.tool import ToolFinder

HERE = f"{sys.platform}-{platform.machine()}"
PROGRAM = b"#!/bin/sh\necho 'py-spy 0.4.3'\n"
SUM = hashlib.sha256(PROGRAM).hexdigest()
Find = Callable[..., ToolFinder]


@pytest.fixture
def find(guard: FakeGuard, tmp_path: Path) -> Find:
    guard.files["py-spy"] = PROGRAM

    def finder(**settings: str) -> ToolFinder:
        wanted = AttemptSettings(attempt="nightly-1", guard=guard.url, retry_s=0.01, **settings)  # type: ignore[arg-type]
        return ToolFinder.py_spy(wanted, guard.token, str(tmp_path))

    return finder


def test_tool_is_fetched_once(find: Find, guard: FakeGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A VM without py-spy fetches the guard's, which stays for later runs on its disk."""
    monkeypatch.setenv("PATH", "/nowhere")

    paths = [find(py_spy_sha256=SUM, py_spy_machine=HERE).path(lambda _: None) for _ in range(2)]

    assert Path(paths[0]).read_bytes() == PROGRAM
    assert guard.fetched == ["py-spy"]


def test_tool_of_the_vm_is_preferred(
    find: Find, guard: FakeGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched where the VM's image has a new enough one."""
    (tmp_path / "py-spy").write_bytes(PROGRAM)
    (tmp_path / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert find().path(lambda _: None) == str(tmp_path / "py-spy")
    assert guard.fetched == []


def test_old_tool_of_the_vm_is_not_used(find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """py-spy 0.3 reads no Python after 3.11."""
    (tmp_path / "py-spy").write_bytes(PROGRAM.replace(b"0.4.3", b"0.3.14"))
    (tmp_path / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    path = find(py_spy_sha256=SUM, py_spy_machine=HERE).path(lambda _: None)

    assert path != str(tmp_path / "py-spy")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "the guard has none to serve: install py-spy 0.4 or later in the VM's boot image"),
        ({"py_spy_sha256": SUM, "py_spy_machine": "linux-riscv"}, "serves py-spy for linux-riscv, and this VM is"),
        ({"py_spy_sha256": "0" * 64, "py_spy_machine": HERE}, "another file than the attempt's settings name"),
    ],
)
def test_tool_that_does_not_fit_is_refused(
    find: Find, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], words: str
) -> None:
    """Nothing runs on the VM that the settings do not name by its SHA-256."""
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(TransferFailed, match=words):
        find(**settings).path(lambda _: None)


def test_guard_serves_the_pinned_tools() -> None:
    """The locked requirements bring rclone and py-spy, as they are built for this system."""
    tools = vm_tools()

    assert set(tools) == {"rclone", "py-spy"}
    assert all(tool.machine == HERE for tool in tools.values())
    assert all(hashlib.sha256(Path(tool.path).read_bytes()).hexdigest() == tool.sha256 for tool in tools.values())
