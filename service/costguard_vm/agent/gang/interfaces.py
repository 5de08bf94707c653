"""The network interface that holds an address of this VM."""

from __future__ import annotations

import fcntl
import socket
import struct

SIOCGIFADDR, SIOCGIFNETMASK = 0x8915, 0x891B  # linux/sockios.h


def interface_of(address: str) -> str:
    """Returns its name, or that of the interface in whose network the address is; "" where there is none."""
    wanted, best = _number(socket.inet_aton(address)), ""
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                own, mask = (_number(_asked(probe, name, what)) for what in (SIOCGIFADDR, SIOCGIFNETMASK))
            except OSError:  # it has no address of this kind
                continue
        if own == wanted:
            return name
        if own & mask == wanted & mask:
            best = name
    return best


def _asked(probe: socket.socket, name: str, what: int) -> bytes:
    """Reads an address of `struct ifreq` (man 7 netdevice), which follows the name, a family and a port."""
    return fcntl.ioctl(probe.fileno(), what, struct.pack("256s", name.encode()[:15]))[20:24]


def _number(packed: bytes) -> int:
    return int.from_bytes(packed, "big")
