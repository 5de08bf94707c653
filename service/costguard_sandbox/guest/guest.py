"""One boot of a VM: its keeper, told through a pipe what happens to the VM, and a thread that waits for its end."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from costguard_sandbox.guest.keeper import SHUTDOWN, STARTUP
from costguard_sandbox.guest.tools import program


@dataclass(frozen=True, slots=True)
class Order:
    """`prepare` runs in the guest's thread, when its directory is there."""

    disk: Path
    serial: Path
    script: str
    boot: timedelta
    environment: Mapping[str, str]
    prepare: Callable[[], None]


class Guest:
    """All but the thread's own doing is called with the world locked."""

    def __init__(self, order: Order, gone: Callable[[Guest], None]) -> None:
        self._order, self._gone = order, gone
        for folder in ("root", "tmp"):
            (order.disk / folder).mkdir(parents=True, exist_ok=True)
        (order.disk / SHUTDOWN).unlink(missing_ok=True)
        _write_script(order.disk / STARTUP, order.script)
        self._orders_out, self._orders_in = os.pipe()  # the pipe keeps what is said before the keeper listens
        self._acts: list[Callable[[], None]] = []
        self.is_suspended = False
        self._thread = threading.Thread(target=self._live, name=f"vm-{order.disk.name}", daemon=True)
        self._thread.start()

    def end(self, grace: timedelta, shutdown_script: str) -> None:
        if shutdown_script:
            _write_script(self._order.disk / SHUTDOWN, shutdown_script)
        self._tell(f"end {grace.total_seconds()}")

    def cut(self) -> None:
        self.is_suspended = False
        self._tell("cut")

    def suspend(self) -> None:
        self.is_suspended = True
        self._tell("freeze")

    def resume(self) -> None:
        self.is_suspended = False
        self._tell("thaw")

    def when_gone(self, act: Callable[[], None]) -> None:
        self._acts.append(act)

    def act(self) -> None:
        while self._acts:
            self._acts.pop(0)()

    def join(self) -> None:
        self._thread.join()

    def _tell(self, command: str) -> None:
        with suppress(BrokenPipeError):  # it has just ended
            os.write(self._orders_in, f"{command}\n".encode())

    def _live(self) -> None:
        try:
            self._run()
        finally:
            os.close(self._orders_out)
            self._gone(self)
            os.close(self._orders_in)

    def _run(self) -> None:
        order = self._order
        order.prepare()
        with order.serial.open("ab") as serial:
            keeper = subprocess.Popen(  # noqa: S603  our own program
                program("costguard_sandbox.guest.keeper", str(order.boot.total_seconds())),
                stdin=self._orders_out,
                stdout=serial,
                stderr=serial,
                cwd=order.disk,
                env=dict(order.environment),
                start_new_session=True,
            )
        keeper.wait()


def _write_script(place: Path, script: str) -> None:
    place.write_text(script)
    place.chmod(0o700)
