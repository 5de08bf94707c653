"""Ports that a test names before anything listens there."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _LAST = 10_000, 32_000  # below what Linux gives to connections by itself, see ip_local_port_range in man 7 ip
_MOST_A_PROCESS = 50
_turns = itertools.count()


def free_port() -> int:
    """Returns a port of loopback that is free and stays so until it is listened at.

    A port that the system chose and that was given back may be that of any connection a moment later; and processes
    look in places of their own, so that two do not find the same.
    """
    span = _LAST - _FIRST
    for turn in _turns:
        port = _FIRST + (os.getpid() * _MOST_A_PROCESS + turn) % span
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            assert turn < span, "no port is free"
    raise AssertionError
