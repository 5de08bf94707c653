"""The first process of a VM: whatever the VM runs descends from it, and has ended when it ends.

On standard input it is told what happens to the VM: `end SECONDS` is a soft-off, `cut` a loss of power, `freeze` and
`thaw` a suspension. When that input closes, however the simulated cloud came to its end, the power is gone, too.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from costguard_sandbox.guest.processes import (
    DEV_NULL,
    Process,
    Signals,
    adopt_orphans,
    descendants,
    reap,
    send,
)

STARTUP, SHUTDOWN = "startup-script", "shutdown-script"
_NEVER = float("inf")
_LOOKS_EVERY_S = 1.0  # some end without our being told: their parents wait for them
_KILLS_EVERY_S = 0.05


class Keeper:
    def __init__(self, boot_s: float) -> None:
        self._boots_at = time.monotonic() + boot_s
        self._kills_at = _NEVER
        self._is_ending = False
        self._services: set[tuple[int, int]] = set()
        self._told: set[tuple[int, int]] = set()
        self._last_script = 0  # the session of the shutdown script, which has all the time there is

    def run(self) -> int:
        adopt_orphans()
        signals = Signals(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        inputs, text = [0], b""
        while True:
            came, ready = signals.wait(self._pause(), *inputs)
            if ready:
                more = os.read(0, 4096)
                *commands, text = (text + more).split(b"\n")
                for command in commands:
                    self._obey(*command.decode().split())
                if not more:
                    inputs = []
            if not inputs or any(number != signal.SIGCHLD for number in came):
                self._obey("cut")
            _, has_children = reap()
            if self._is_ending and not has_children:
                return 0
            self._go_on()

    def _pause(self) -> float | None:
        if not self._is_ending:
            return None if self._boots_at == _NEVER else max(0.0, self._boots_at - time.monotonic())
        left = self._kills_at - time.monotonic()
        return min(left, _LOOKS_EVERY_S) if left > 0 else _KILLS_EVERY_S

    def _obey(self, command: str, seconds: str = "0") -> None:
        if command == "freeze":
            for _ in range(2):  # the second look finds what the first one saw being made
                send(descendants(os.getpid()), signal.SIGSTOP)
        elif command == "thaw":
            send(descendants(os.getpid()), signal.SIGCONT)
        elif command in ("end", "cut"):
            self._kills_at = min(self._kills_at, time.monotonic() + float(seconds))
            if not self._is_ending and command == "end":
                self._soft_off()
            self._is_ending = True

    def _soft_off(self) -> None:
        """As systemd does: first the services, of which each ends what it has put into sessions of its own."""
        living = descendants(os.getpid())
        sessions = {process.session for process in living if process.parent == os.getpid()}
        services = [process for process in living if process.session in sessions]
        self._services = {process.key for process in services}
        self._tell(services)
        if os.path.exists(SHUTDOWN):
            self._last_script = _start(SHUTDOWN)

    def _go_on(self) -> None:
        now = time.monotonic()
        if not self._is_ending:
            if now >= self._boots_at:
                self._boots_at = _NEVER
                _start(STARTUP)
            return
        living = descendants(os.getpid())
        if now >= self._kills_at:
            send(living, signal.SIGKILL)
        elif not any(process.key in self._services for process in living):
            self._tell([process for process in living if process.session != self._last_script])

    def _tell(self, processes: list[Process]) -> None:
        send((process for process in processes if process.key not in self._told), signal.SIGTERM)
        self._told |= {process.key for process in processes}


def _start(script: str) -> int:
    """In a session of its own. A script that cannot be run as it is, is the shell's."""
    path = os.path.abspath(script)
    try:
        return os.posix_spawn(path, [path], os.environ, file_actions=DEV_NULL, setsid=True)
    except OSError:
        return os.posix_spawn("/bin/sh", ["/bin/sh", path], os.environ, file_actions=DEV_NULL, setsid=True)


def main() -> int:
    """`keeper SECONDS`, in the VM's directory: boots after so many seconds."""
    return Keeper(float(sys.argv[1])).run()
