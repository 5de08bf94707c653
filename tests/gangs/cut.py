"""Cuts the network between the processes of two VMs: the packets of their connections vanish.

It needs a network namespace of its own, in which it moves the kernel's rule for local addresses behind rules of ours
(ip-rule(8)): a rule `blackhole` for the ports of a connection drops its packets in both directions, as a broken link
or a firewall that forgot it does, and TCP sends them again until the rule is gone. Connections that are made during
the cut are not cut. Whatever else of this computer goes on as before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_INSIDE = "COSTGUARD_GANGS_NETWORK"
_BEHIND = "32000"
_FIRST = 100
_ESTABLISHED = "01"  # include/net/tcp_states.h

Ports = tuple[int, int]


def enter(module: str, arguments: Iterable[str]) -> bool:
    """Starts this program again in a network namespace of its own, where this computer allows one, and does not return
    from its first start then. Returns whether it is in one.
    """
    if os.environ.get(_INSIDE):
        _ip("link", "set", "lo", "up")
        _ip("rule", "add", "pref", _BEHIND, "lookup", "local")
        _ip("rule", "del", "pref", "0")
        return True
    own = ["unshare", "--map-root-user", "--net"]
    has_tools = all(map(shutil.which, ("unshare", "ip")))
    if not has_tools or subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        return False
    os.environ[_INSIDE] = "1"
    return os.execvp("unshare", [*own, sys.executable, "-m", module, *arguments])


class Cut:
    """The packets between these processes vanish until `heal`. There may be no connection between them."""

    def __init__(self, ones: Collection[int], others: Collection[int]) -> None:
        self.connections = list(connections(ones, others))
        self._rules: list[str] = []
        for here, there in self.connections:
            for source, target in ((here, there), (there, here)):
                rule = str(_FIRST + len(self._rules))
                ports = ("sport", str(source), "dport", str(target))
                _ip("rule", "add", "pref", rule, "ipproto", "tcp", *ports, "blackhole")
                self._rules.append(rule)

    def heal(self) -> None:
        while self._rules:
            _ip("rule", "del", "pref", self._rules.pop())


def connections(ones: Collection[int], others: Collection[int]) -> Iterator[Ports]:
    """Yields the ports of TCP connections between processes, first those of the `ones`."""
    mine, theirs = _sockets(ones), _sockets(others)
    by_inode = dict(_established())
    there = {ports for inode, ports in by_inode.items() if inode in theirs}
    for inode, (local, remote) in by_inode.items():
        if inode in mine and (remote, local) in there:
            yield local, remote


def _sockets(pids: Iterable[int]) -> set[str]:
    """Returns the inodes of the processes' sockets."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for one in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    kind, _, inode = os.readlink(one).partition(":")
                    if kind == "socket":
                        inodes.add(inode.strip("[]"))
    return inodes


def _established() -> Iterator[tuple[str, Ports]]:
    """Yields inode and ports of each (proc_net_tcp in the kernel's documentation)."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED:
                yield fields[9], (_port(fields[1]), _port(fields[2]))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)
