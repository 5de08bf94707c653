"""A world whose VMs run, and how a test hears of what happens inside of them."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.sandbox.vms import MINUTE, PROJECT, SPOT, START, body

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.guest.local import LocalGuestSettings
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PATIENCE_S = 90


class ServedVMs:
    """VMs tell the test, line by line, through a pipe that has a name."""

    def __init__(self, world: World, url: str, folder: Path) -> None:
        self.world, self.url, self.folder = world, url, folder
        self.said = folder / "said"
        os.mkfifo(self.said)
        self._pipe = os.open(self.said, os.O_RDWR)
        self._text = b""

    def boot(self, script: str, name: str = "vm", **more: Any) -> VM:
        """A Spot VM that is RUNNING; `$say` in its script is where words to the test go."""
        items = [{"key": "startup-script", "value": f"#!/bin/sh\nsay={self.said}\n{script}"}]
        items += more.pop("items", [])
        self.world.insert(PROJECT, "us-central1-a", body(name, **{**SPOT, "metadata": {"items": items}, **more}))
        self.world.advance(MINUTE)
        return self.world.instance(PROJECT, name)

    def hear(self) -> str:
        """The next line that a VM says."""
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._pipe], [], [], PATIENCE_S)
            assert ready, "no VM says anything"
            self._text += os.read(self._pipe, 4096)
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    def wait_until_gone(self, vm: VM) -> None:
        gone = threading.Event()
        with self.world.settled():
            self.world.guests.when_gone(vm, gone.set)
        assert gone.wait(PATIENCE_S), "processes of the VM are left"

    def disk(self, vm: VM) -> Path:
        assert vm.boot_disk is not None
        return self.folder / "vms" / str(vm.boot_disk.id)

    def processes(self, vm: VM) -> list[str]:
        return processes_of(self.disk(vm))

    def wait_until_all_stand_still(self, vm: VM) -> None:
        """All but the init process."""
        waiting = threading.Event()
        for _ in range(PATIENCE_S * 100):
            if set(_states_of(self.disk(vm))) == {"T"}:
                return
            waiting.wait(0.01)
        raise AssertionError("processes of the VM go on")

    def close(self) -> None:
        os.close(self._pipe)


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that know of the folder, by their directory or their environment."""
    return [_read(one / "cmdline") for one in _knowing(folder)]


def pids_of(folder: Path) -> list[int]:
    """The same processes by their ids."""
    return [int(one.name) for one in _knowing(folder)]


def command_lines() -> list[str]:
    return [_read(one / "cmdline") for one in Path("/proc").iterdir()]


def _states_of(folder: Path) -> list[str]:
    processes = [one for one in _knowing(folder) if "guest.init_process" not in _read(one / "cmdline")]
    return [_read(one / "stat").rpartition(")")[2].split()[0] for one in processes]


def _knowing(folder: Path) -> list[Path]:
    others = (one for one in Path("/proc").iterdir() if one.name.isdecimal() and one.name != str(os.getpid()))
    return [one for one in others if str(folder) in _read(one / "cwd") + _read(one / "environ")]


def _read(place: Path) -> str:
    """Nothing where the process has ended meanwhile."""
    try:
        return os.readlink(place) if place.name == "cwd" else place.read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


@contextmanager
def served_vms(
    folder: Path,
    grace_s: float = 20,
    clock: ManualClock | None = None,
    own_folders: tuple[Path, ...] = (),
    **options: Any,
) -> Iterator[ServedVMs]:
    grace = timedelta(seconds=grace_s)
    settings = LocalGuestSettings(
        folder / "vms",
        boot=timedelta(0),
        preemption_grace=grace,
        stop_grace=grace,
        docker="shim",
        path=os.environ["PATH"],
        own_folders=own_folders,
    )
    world = World(clock or ManualClock(START), projects=[PROJECT], local_guests=settings, **options)
    with running(world) as url:
        made = ServedVMs(world, url, folder)
        try:
            yield made
        finally:
            made.close()
    assert processes_of(folder) == []
