"""The agent's work: one attempt, from its settings to the last event that the guard accepted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import docker, images
from .calls import Metadata, Trouble
from .files import boot_id, lock, make_folder, say, utc, write_json
from .guard import Guard
from .machine import Machine
from .order import config_of, container, hand_over, prepare
from .progress import NO_PROGRESS, Progress
from .runner import birth, signal_group
from .saved import Saved
from .settings import NotStarted, Places, Settings
from .spool import Spool
from .state import MACHINE_ENDS, State
from .watch import watch

LAST_WORDS_S = 5
NEVER = float("inf")


class MachineEnds(Exception):
    """Before the command was started. An installer of drivers may restart the VM, and then it is started after all."""


class Attempt:
    """One command on this VM. Its folder tells a later agent, also after a reboot, how far this one came."""

    def __init__(self, settings: Settings, token: str, metadata: Metadata, places: Places) -> None:
        self._settings, self._token, self._metadata = settings, token, metadata
        self._folder = os.path.join(places.home, "attempts", settings.attempt)
        spool = Spool(os.path.join(self._folder, "spool"), settings.spool_most)
        self._guard = Guard(settings, token, spool, lambda: self._ask("cancel", settings.cancel_grace_s))
        self._state = State(self._folder)
        if settings.resume:
            self._state.begin_again()
        self._log = os.path.join(places.logs, f"{settings.attempt}.{self._state.run}.log")
        self._step_file = settings.step_file or os.path.join(self._state.run_folder, "step", "step")
        for folder in (self._state.run_folder, places.logs, os.path.dirname(self._step_file)):
            make_folder(folder)
        if not settings.step_file:
            with contextlib.suppress(OSError):  # who runs in a container need not be root
                os.chmod(os.path.dirname(self._step_file), 0o1777)  # noqa: S103
        self._machine = Machine(self._folder)
        self._progress = Progress(settings, self._log, self._step_file)
        self._saved = Saved(settings, places.volumes, os.path.join(self._folder, "runs"))
        self._asking = threading.Lock()
        self._reporting = threading.RLock()  # what is reported of a run comes in its order
        self._wake, self._over = threading.Event(), threading.Event()
        self._is_machine_ending = False
        self._deadline, self._was_killed = NEVER, False
        self._runner: subprocess.Popen[bytes] | None = None
        self._reading: threading.Thread | None = None

    def end(self, *_: Any) -> None:
        """The machine goes down. Called by a signal, so nothing here may take a lock."""
        self._is_machine_ending = True

    def work(self, wrong: list[str]) -> None:
        """Returns when all was told. Where the machine goes down, there are a few seconds for that."""
        self._guard.start()
        self._guard.tell("boot", boot=boot_id(), run=self._state.run, python=sys.version.split()[0])
        if "exit" not in self._state.told:
            settings, over = self._settings, self._over
            _in_background(lambda: self._machine.watch_gpus(settings.heartbeat_s, over))
            _in_background(self._beat)
            _in_background(lambda: self._saved.watch(settings.look_s, over))
            for key, act in (("preempted", self._preempted), ("maintenance-event", self._maintained)):
                arguments = (self._metadata, f"instance/{key}", act, over, settings.retry_s)
                threading.Thread(target=watch, args=arguments, daemon=True).start()
            self._attend(wrong)
        self._over.set()
        latest = NEVER
        while not self._guard.is_done() and time.monotonic() < latest:
            if self._is_machine_ending:
                latest = min(latest, time.monotonic() + LAST_WORDS_S)
            self._wait(self._settings.poll_s)

    def _attend(self, wrong: list[str]) -> None:
        held = lock(os.path.join(self._state.run_folder, "lock"))
        if held is not None:
            try:
                if not self._state.of_runner("begun.json"):
                    self._start(wrong, held)
            except MachineEnds:
                return
            except (NotStarted, Trouble, OSError, ValueError, KeyError) as problem:
                repeats = isinstance(problem, NotStarted) and problem.repeats
                ended = {"reason": "not_started", "error": str(problem), "repeats": repeats, "ended_at": utc()}
                self._tell_exit(ended)
                return
            finally:
                os.close(held)
        while not self._is_over():
            self._wait(self._settings.poll_s)

    def _start(self, wrong: list[str], held: int) -> None:
        if wrong:
            raise NotStarted(f"the attempt's settings are wrong: {'; '.join(wrong)}", True)
        settings, folder, run, image = self._settings, self._folder, self._state.run, None
        # Somebody may have started a VM only to fetch what is on its disk: the guard knows whether work is to go on.
        while run > 1 and not self._guard.has_answered.is_set():
            self._hold(settings.poll_s)
        more, resumed = self._saved.resumed(run)
        write_json(os.path.join(self._state.run_folder, "resumed.json"), resumed)
        if settings.image:
            image = images.resolve(settings, folder, config_of(folder), self._metadata, self._hold)
            self._guard.tell("image", run=run, image=settings.image, digest=image.digest)
        settings = settings._replace(command=[*settings.command, *more])
        order = prepare(settings, self._metadata, folder, run, self._step_file, self._hold, image)
        order["log"] = self._log
        order["hidden"].append(self._token)
        self._hold(0)
        self._runner = hand_over(order, self._state.run_folder, held)
        self._reading = threading.Thread(target=self._read_reports, args=(self._runner,), daemon=True)
        self._reading.start()

    def _read_reports(self, runner: subprocess.Popen[bytes]) -> None:
        """What the runner writes into files, it reports as well: neither disk nor memory may have taken them."""
        assert runner.stdout is not None
        for line in runner.stdout:
            with contextlib.suppress(ValueError, KeyError):
                report = json.loads(line)
                self._state.reported[report["name"]] = report["document"]

    def _is_over(self) -> bool:
        """One look at the runner's files: tells of the start, passes on the wish to stop, tells of the exit."""
        if self._is_machine_ending:
            self._ask("shutdown", self._settings.notice_grace_s)
        is_gone = self._is_runner_gone()  # before its last file is looked for
        command = self._tell_start()
        if command:
            self._stop_if_asked(command["pid"])
        ended = self._state.of_runner("exit.json")
        if is_gone and not ended:
            is_reboot = not self._state.is_of_this_boot()
            if not is_reboot and command and birth(command["pid"]) == command["birth"]:
                self._kill(command["pid"])
            why = "the VM was started anew" if is_reboot else "the process that held the command's output was ended"
            ended = {"reason": "cut_off", "error": why, "ended_at": utc()}
        if ended:
            self._tell_exit(ended)
        return bool(ended)

    def _is_runner_gone(self) -> bool:
        if self._runner is not None:
            is_gone = self._runner.poll() is not None
            if is_gone and self._reading is not None:
                self._reading.join(LAST_WORDS_S)
            return is_gone
        held = lock(os.path.join(self._state.run_folder, "lock"))
        if held is not None:
            os.close(held)
        return held is not None

    def _ask(self, why: str, grace_s: float) -> None:
        """For the command to stop. A second reason can only shorten the time that is left."""
        with self._asking:
            stop = self._state.stop
            if why in stop.get("reasons", ()):
                return
            first = stop or {"why": why, "grace_s": grace_s, "is_signalled": False, "reasons": []}
            self._state.stop = {**first, "reasons": [*first["reasons"], why]}
            self._state.save()
            self._deadline = min(self._deadline, time.monotonic() + grace_s)
        self._wake.set()

    def _stop_if_asked(self, pid: int) -> None:
        with self._asking:
            stop = self._state.stop
            if stop and not stop["is_signalled"]:
                signal_group(pid, signal.SIGTERM)
                self._state.stop = {**stop, "is_signalled": True}
                self._state.save()
                self._guard.tell("stopping", run=self._state.run, why=stop["why"], grace_s=stop["grace_s"])
            elif stop and self._deadline == NEVER:  # it was asked of an agent before this one
                self._deadline = time.monotonic() + stop["grace_s"]
        if time.monotonic() >= self._deadline and not self._was_killed:
            self._kill(pid)

    def _kill(self, pid: int) -> None:
        self._was_killed = True
        if self._settings.image:
            docker.kill(container(self._settings, self._state.run))
        signal_group(pid, signal.SIGKILL)

    def _preempted(self, value: str) -> None:
        if value == "TRUE":
            self._guard.tell("notice", run=self._state.run, what="preemption", value=value)
            self._ask("preemption", self._settings.notice_grace_s)

    def _maintained(self, value: str) -> None:
        if value != "NONE":
            self._guard.tell("notice", run=self._state.run, what="maintenance", value=value)
        if value.startswith("TERMINATE") and self._settings.maintenance == "stop":
            self._ask("maintenance", self._settings.notice_grace_s)

    def _tell_start(self) -> dict[str, Any]:
        """Reports that the command runs, once it does. Returns what the runner wrote of it; empty before."""
        command = self._state.of_runner("command.json")
        if command:
            resumed = self._state.of_runner("resumed.json")
            about = {"pid": command["pid"], "started_at": command["started_at"], "image": self._settings.image}
            self._tell_once("start", **about, **({"checkpoint": resumed} if resumed else {}))
        return command

    def _tell_once(self, kind: str, **event: Any) -> None:
        with self._reporting:
            if kind not in self._state.told:
                self._guard.tell(kind, run=self._state.run, **event)
                self._state.mark_told(kind)

    def _tell_exit(self, ended: Mapping[str, Any]) -> None:
        how = {"code": None, "signal": None, "error": "", "repeats": False, **ended}
        asked = self._state.stop.get("why")
        machine = self._machine.look(3 * self._settings.heartbeat_s + 20)
        # Where the machine ends there are seconds left, and the next run looks before it begins.
        saved = {"checkpoint": self._saved.look()} if self._saved.is_on_disk and asked not in MACHINE_ENDS else {}
        about = {**how, "asked": asked, "was_killed": self._was_killed, "machine": machine, **saved}
        last = self._progress.at_the_end()
        if self._saved.is_on_disk:
            self._note_end({**how, "asked": asked}, last.get("step"))
        self._tell_once("exit", **about, **last)

    def _note_end(self, ended: Mapping[str, Any], step: int | None) -> None:
        """For a later run: whether the checkpoint that this one resumed from is to be trusted."""
        started_at = self._state.of_runner("command.json").get("started_at")
        kept = {name: ended.get(name) for name in ("reason", "code", "asked", "ended_at")}
        with contextlib.suppress(OSError):
            write_json(
                os.path.join(self._state.run_folder, "ended.json"), {**kept, "started_at": started_at, "step": step}
            )

    def _beat(self) -> None:
        while not self._over.wait(self._settings.heartbeat_s):
            try:
                self._tell_heartbeat()
            except Exception as error:  # one heartbeat that fails must not be the last
                say(f"no heartbeat: {error!r}")

    def _tell_heartbeat(self) -> None:
        """Progress is read before the start is looked for, so that none is reported of a command without its start."""
        machine = self._machine.look(3 * self._settings.heartbeat_s + 20)
        progress = self._progress.now()
        with self._reporting:
            is_running = bool(self._tell_start())
            if "exit" not in self._state.told:
                about = {"run": self._state.run, "is_running": is_running, "machine": machine, **self._saved.news()}
                self._guard.tell("heartbeat", is_urgent=False, **about, **(progress if is_running else NO_PROGRESS))

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _hold(self, seconds: float) -> None:
        """Waits for something that the command needs, unless nobody wants the command any more."""
        latest = time.monotonic() + seconds
        while True:
            if self._state.stop:
                raise NotStarted(f"{self._state.stop['why']} came before the command was started")
            if self._is_machine_ending:
                raise MachineEnds
            if time.monotonic() >= latest:
                return
            self._wait(min(seconds, self._settings.poll_s))


def _in_background(task: Callable[[], None]) -> None:
    threading.Thread(target=task, daemon=True).start()
