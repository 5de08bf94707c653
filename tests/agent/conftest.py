"""A guard and a VM on the loopback."""

from __future__ import annotations

import importlib.util
import marshal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard, Listener, guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.loaded_agents import LoadedAgents, loaded_agents
from tests.agent.s3_server import QUICK_START
from tests.agent.vm import Vm

from costguard_vm.bundle import texts


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs what travels, with compiled modules next to their sources: each start of the file itself compiles them.

    The tests of the bundle and of a boot start that file.
    """
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts().items():
            archive.writestr(name, text)
            code = marshal.dumps(compile(text, f"{path}/{name}", "exec"))
            archive.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _TRUSTED + code)
    return path


_TRUSTED = bytes((1, 0, 0, 0)) + bytes(8)  # by PEP 552: compared with no source


@pytest.fixture(scope="session", autouse=True)
def rclone_starts_quickly() -> Iterator[None]:
    """Lasts for transfers in the tests' own process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_START.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def loaded(agent_file: Path) -> Iterator[LoadedAgents]:
    with loaded_agents(agent_file) as agents:
        yield agents


@pytest.fixture
def guard_and_port() -> Iterator[tuple[FakeGuard, Listener]]:
    """A guard that does not listen yet."""
    with guard_at_a_port() as both:
        yield both


@pytest.fixture
def guard(guard_and_port: tuple[FakeGuard, Listener]) -> FakeGuard:
    fake, listener = guard_and_port
    listener.listen()
    return fake


@pytest.fixture
def vm(
    tmp_path: Path, agent_file: Path, loaded: LoadedAgents, guard_and_port: tuple[FakeGuard, Listener]
) -> Iterator[Vm]:
    with metadata_server() as metadata:
        made = Vm(tmp_path, agent_file, metadata, guard_and_port[0], loaded)
        yield made
        made.close()
