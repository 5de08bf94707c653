"""Runs a guard: this process watches the fleet, and others that it starts serve HTTP."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from costguard.daemon.schedule import Daemon
from costguard.daemon.shutdown import Shutdown, ended_by_signals
from costguard.errors import CostguardError
from costguard.memory import few_arenas
from costguard.processes.loose import LooseTurns
from costguard.processes.setup_check import SetupCheck
from costguard.processes.supervisor import Supervisor
from costguard.processes.web_process import WebProcesses
from costguard.processes.wire import Asked, Begin, Family, State

_FIRST_ANSWER_S = 5.0  # the first pass waits for the first answer: both at once slow each other
_FINISHING_S = 5.5  # for what is being written
_RELEASING_S = 1.5  # and then for the lease
_LOOK_S = 0.2


class Intake(Protocol):
    """Takes in clicks and commands while it is open."""

    def open(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """The parts of a guard that serves.

    `begin` is what serving processes get first. `state` and `counted` are called from threads to keep them current.
    `answered` is called every second while agents' reports are answered. `intake`: None where no clicks come through
    this process.
    """

    daemon: Daemon
    begin: Begin
    state: Callable[[], State]
    counted: Callable[[], tuple[Family, ...]]
    answered: Callable[[], None]
    setup: SetupCheck
    loose: LooseTurns
    intake: Intake | None


class GuardService:
    """A guard with all of its processes."""

    def __init__(self, build: Callable[[Supervisor], ServiceParts], web: WebProcesses, shutdown: Shutdown) -> None:
        """`build` makes the parts, of which none is started."""
        self.has_ended = False
        self._build = build
        self._web = web
        self._shutdown = shutdown

    def run(self, ready: Callable[[str], None]) -> None:
        """Watch and answer until SIGTERM or Ctrl-C; within ten seconds of that, end.

        `ready` is called with the address once it answers. Raises CostguardError where it never does, and
        KeyboardInterrupt after Ctrl-C.
        """
        with ended_by_signals(self._shutdown):
            self._run(ready)
        if self._shutdown.exit_code:
            raise KeyboardInterrupt

    def _run(self, ready: Callable[[str], None]) -> None:
        few_arenas()
        web, shutdown = self._web, self._shutdown
        supervisor = Supervisor(os.environ, os.getpid())
        parts = self._build(supervisor)
        daemon, intake = parts.daemon, parts.intake
        web.begin(
            parts.begin, parts.state, parts.counted, _wakes(daemon), parts.answered, parts.setup.checked, parts.loose
        )
        # What is there by now stays to the end. Looking through it for garbage would hold up everything by a fifth of
        # a second now and then.
        gc.freeze()
        web.has_served(_FIRST_ANSWER_S)
        daemon.start()
        parts.setup.start()
        parts.loose.start(lambda: daemon.state.last_pass_at is not None)
        try:
            if intake is not None:
                intake.open()
            if _came_up(web, shutdown):
                ready(web.url)
                supervisor.ready()
                shutdown.requested.wait()
        finally:
            supervisor.stopping()
            shutdown.begin()
            self._end(parts)

    def _end(self, parts: ServiceParts) -> None:
        """Ends the parts. A part that hangs is left to the shutdown, which ends the process when the time is up."""
        daemon, intake = parts.daemon, parts.intake
        self._web.ask_to_stop()
        parts.loose.stop()
        steps: dict[str, Callable[[], object]] = {
            "the watch": lambda: daemon.stop(timedelta(seconds=_FINISHING_S)),
            "the process that serves": lambda: self._web.wait_for_end(_FINISHING_S),
        }
        if intake is not None:
            steps["clicks in Slack"] = intake.close
        is_over = self._shutdown.run(steps, lambda: daemon.running, _FINISHING_S + _RELEASING_S)
        self.has_ended = is_over and not daemon.running


def _came_up(web: WebProcesses, shutdown: Shutdown) -> bool:
    """Waits for the first answer; False: the end was asked for before. Raises CostguardError."""
    while not shutdown.requested.is_set():
        has_served = web.has_served(_LOOK_S)
        if has_served:
            return True
        if has_served is False:
            raise CostguardError(
                "The process that serves pages and the API ended as it started, so Costguard ended, too.",
                "Its own words are above. Mend what they name, and start Costguard again.",
            )
    return False


def _wakes(daemon: Daemon) -> dict[Asked, Callable[[], None]]:
    def look() -> None:
        daemon.ask_for_jobs()
        daemon.ask_for_look()

    return {"pass": daemon.ask_for_pass, "jobs": daemon.ask_for_jobs, "look": look}
