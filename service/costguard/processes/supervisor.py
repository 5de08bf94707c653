"""Notifies systemd: ready, alive, stopping (man 3 sd_notify)."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta

import structlog

log = structlog.get_logger(__name__)

HUNG = 70  # EX_SOFTWARE of sysexits.h: not 0, so that `Restart=on-failure` and its like start the guard again


class Supervisor:
    """Does nothing where no supervisor asked for notifications: without `NOTIFY_SOCKET` in the environment."""

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in Linux's abstract namespace, where a NUL stands for the @.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        micros = environ.get("WATCHDOG_USEC", "")
        is_ours = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        self._watchdog = timedelta(microseconds=int(micros)) if micros.isdecimal() and is_ours else None

    @property
    def watchdog(self) -> timedelta | None:
        """Returns how long the supervisor waits for a sign of life before it ends the process; None: it does
        not watch.
        """
        return self._watchdog

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        if self._watchdog is not None:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.connect(self._address)
                channel.sendall(state.encode())
        except OSError as error:  # the work goes on; a supervisor that watches acts on its own
            log.warning("supervisor_not_notified", state=state, error=str(error))


def end_hung(silence: timedelta) -> None:
    """End this process on the spot, for its supervisor to start it again; the one that serves ends with it.

    Nothing is finished or handed on: whatever would do that may be what hangs. The database undoes what was open.
    """
    log.critical(
        "watchdog_ends_the_guard",
        why=f"the database has not answered about the lease for {silence.total_seconds():.0f} s",
        exit_status=HUNG,
        what_follows="the supervisor starts it again; until then another replica acts, if there is one",
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(HUNG)
