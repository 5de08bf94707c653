"""Gangs of VMs on loopback addresses, and a guard that gates their rounds as the contract says."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agent.fake_guard import Event, FakeGuard, guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.loaded_agents import LoadedAgents
from tests.agent.vm import Vm

SECRET = "the-secret-of-this-round"
_NUMBERS = itertools.count(1)


def addresses(count: int) -> list[str]:
    """Addresses of the loopback (127.0.0.0/8, RFC 5735) that no other test of this machine has, nor another process."""
    number = next(_NUMBERS)
    return [
        f"127.{1 + os.getpid() % 254}.{1 + (os.getpid() // 254 + number) % 254}.{2 + node}" for node in range(count)
    ]


class Gang:
    """VMs and the guard of each. `node` N is at `addresses[N]`."""

    def __init__(self, vms: Sequence[Vm], guards: Sequence[FakeGuard], addresses: Sequence[str]) -> None:
        self.vms, self.guards, self.addresses = list(vms), list(guards), list(addresses)

    def order(self, command: Sequence[str], **more: Any) -> None:
        """Puts the settings of each node into its VM's metadata."""
        for node, (vm, address) in enumerate(zip(self.vms, self.addresses, strict=True)):
            vm.metadata.set("instance/network-interfaces/0/ip", address)
            gang = {"node": str(node), "nodes": str(len(self.vms)), **more.get("gang", {})}
            vm.order(*command, stand_by_s=0.1, **{**more, "gang": gang})

    def boot(self) -> None:
        for vm in self.vms:
            vm.boot()

    def go(self, number: int, **more: object) -> None:
        """Lets a round begin, once all stand by for it."""
        for guard in self.guards:
            guard.wait_for("heartbeat", is_standing_by(number))
        for guard in self.guards:
            guard.go = word(number, self.addresses, **more)

    def regroup(self, number: int) -> None:
        for guard in self.guards:
            guard.regroup = {"round": number}

    def all(self, kind: str, fits: Callable[[Event], bool] = lambda _: True) -> list[Event]:
        """Returns the first such event of each node."""
        return [guard.wait_for(kind, fits) for guard in self.guards]


def word(number: int, addresses: Sequence[str], **more: object) -> dict[str, object]:
    """Returns what lets a round begin."""
    first = {"round": number, "addresses": list(addresses), "secret": SECRET}
    return {**first, "resume_from": "", "step": None, "arguments": [], **more}


def is_standing_by(number: int) -> Callable[[Event], bool]:
    return lambda event: event.get("phase") == "standing_by" and event["round"] == number


def of_round(number: int) -> Callable[[Event], bool]:
    return lambda event: event["round"] == number


def pid_of(vm: Vm) -> int:
    """Returns the process of the newest run's command."""
    run = max(vm.run_folders(), key=lambda path: int(path.name))
    return int(json.loads((run / "command.json").read_text())["pid"])


@contextmanager
def gang_of(count: int, folder: Path, agent: Path, loaded: LoadedAgents | None = None) -> Iterator[Gang]:
    with contextlib.ExitStack() as stack:
        vms, guards = [], []
        for node in range(count):
            guard, listener = stack.enter_context(guard_at_a_port())
            listener.listen()
            metadata = stack.enter_context(metadata_server())
            home = folder / f"node-{node}"
            home.mkdir(parents=True)
            vm = Vm(home, agent, metadata, guard, loaded)
            vm.attempt = f"nightly-7f3a-{node + 1}"
            stack.callback(vm.close)
            vms.append(vm)
            guards.append(guard)
        yield Gang(vms, guards, addresses(count))
