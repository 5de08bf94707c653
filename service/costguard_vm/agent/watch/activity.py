"""Watches the bottleneck of the command, minute by minute: the signals of diagnosis/signals.py, gathered while
it runs.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable

from costguard_vm.agent.containers import container_process
from costguard_vm.agent.files import PACE, read, say
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.diagnosis.signals import CommandSignals, HostSignals, Minute, as_json

from .dcgm import DcgmTable, watch_dcgm
from .gpu_watch import GpuWatch
from .host_watch import HostWatch
from .process_watch import PAGE, ProcessWatch
from .profile_watch import ProfileWatch
from .stack_watch import StackWatch


class ActivityWatch:
    """`command` gives the command's process while it runs, `container` its container's name; "" without an image.

    `report` is called with the kind of an event and its fields.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        gpus: GpuWatch,
        stacks: StackWatch,
        profiles: ProfileWatch,
        command: Callable[[], int],
        container: Callable[[], str],
        report: Callable[..., None],
    ) -> None:
        self._settings, self._gpus, self._stacks, self._profiles = settings, gpus, stacks, profiles
        self._command, self._container, self._report = command, container, report
        self._dcgm = DcgmTable()
        self._inside, self._asked = 0, float("-inf")  # the container's first process, and when Docker was asked

    def watch_gpus(self, over: threading.Event) -> None:
        """A thread of its own: a call to the driver may never return."""
        self._gpus.watch(over)

    def watch_counters(self, over: threading.Event) -> None:
        watch_dcgm(self._dcgm, self._gpus.needs_dcgm, over)

    def watch(self, over: threading.Event) -> None:
        """Reports once a minute while the command runs."""
        while not over.wait(self._settings.activity_look_s):
            try:
                if self._command():
                    self._watch_command(over)
            except Exception as error:  # what bounds the command is worth less than the command
                say(f"what bounds the command is not seen: {error!r}")

    def _watch_command(self, over: threading.Event) -> None:
        processes, host, looks = ProcessWatch(), HostWatch(), 0
        began, cpu_s = time.monotonic(), _own_cpu_s()
        while not over.wait(self._settings.activity_look_s) and self._command():
            processes.look(self._roots(), self._gpus.pids())
            looks += 1
            now = time.monotonic()
            if now - began >= self._settings.activity_s:
                used_s = _own_cpu_s()
                main = processes.main
                command = processes.report(self._roots(), self._gpus.pids())
                minute = self._minute(now - began, looks, command, host.report(main))
                self._stacks.after(minute, main)
                self._profiles.after(main)
                self._report("activity", minute=as_json(minute._replace(agent_cpu=(used_s - cpu_s) / (now - began))))
                began, cpu_s, looks = now, used_s, 0

    def _minute(self, seconds: float, looks: int, command: CommandSignals | None, host: HostSignals) -> Minute:
        gpus = self._gpus.report(self._dcgm.take())
        if gpus is None and not self._settings.gpus:
            gpus = ()  # the VM has none
        memory = read("/proc/self/statm").split()
        return Minute(
            seconds=seconds * PACE,
            looks=float(looks),
            gpus=gpus,
            command=command,
            host=host,
            stacks=self._stacks.take(),
            agent_memory_bytes=float(int(memory[1]) * PAGE) if len(memory) > 1 else None,
        )

    def _roots(self) -> list[int]:
        """The command's process; in a container, the first one there, which Docker's service has started."""
        is_lost = self._container() and not (self._inside and os.path.exists(f"/proc/{self._inside}"))
        if is_lost and time.monotonic() - self._asked >= 10 * self._settings.activity_look_s:
            self._asked, self._inside = time.monotonic(), container_process(self._container())
        return [self._inside or self._command()]


def _own_cpu_s() -> float:
    """CPU seconds of the agent and of the tools that it ran."""
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
