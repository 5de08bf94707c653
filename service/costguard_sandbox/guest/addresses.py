"""Addresses at which the processes of several VMs meet on one computer."""

from __future__ import annotations

import errno
import itertools
import os
import socket

from costguard_sandbox.gce.vm import VM

# No service of a VM listens here. It lies above the ports that Linux gives to outgoing connections: by default
# 32768 to 60999 (kernel.org, Documentation/networking/ip-sysctl.rst).
_HELD_AT = 61399
_FIRST, _BLOCKS, _HOSTS = 64, 64, 254  # 127.64.0.0 to 127.127.255.255, without the hosts 0 and 255


class LoopbackAddresses:
    """Gives VMs addresses of 127.0.0.0/8, which all loop back (RFC 1122, section 3.2.1.3), and where Linux lets
    anybody listen.

    No two VMs that exist have the same one, in whatever simulated cloud of this computer: a socket holds each.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(os.getpid() * _HOSTS)
        self._held: dict[VM, socket.socket] = {}

    def of(self, vm: VM) -> str:
        """Returns a free one for a new VM. Raises OSError where this computer has no loopback network."""
        for gone in [one for one in self._held if one.deleted_at is not None]:
            self._held.pop(gone).close()
        while True:
            address = _address(next(self._numbers))
            holder = socket.socket()
            try:
                holder.bind((address, _HELD_AT))
            except OSError as problem:
                holder.close()
                if problem.errno != errno.EADDRINUSE:
                    raise
                continue
            self._held[vm] = holder
            return address

    def close(self) -> None:
        """Gives all back, once no process of a VM runs."""
        while self._held:
            self._held.popitem()[1].close()


def _address(number: int) -> str:
    block, host = divmod(number, _HOSTS)
    second, third = divmod(block, 256)
    return f"127.{_FIRST + second % _BLOCKS}.{third}.{1 + host}"
