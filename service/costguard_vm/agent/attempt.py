"""Runs an attempt: from its settings to the last event that the guard accepted."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .calls import Metadata, watch
from .checkpoints import DiskCheckpoints, on_the_vm
from .drill import DrillWork, HeldDrill
from .events import EventSender, Spool
from .failures import TransferFailed, Trouble
from .files import boot_id, lock, make_folder, say, utc, write_json
from .gang.member import GangMember, PeersMissing, RoundOver
from .liveness import Liveness
from .log_pieces import LogPieces
from .output import NO_PROGRESS, CommandProgress
from .progress import ProgressReader
from .runner import birth, container, prepare
from .runner_watch import LAST_WORDS_S, RunnerWatch
from .saving import SaveRequests, request_file
from .settings import AgentPaths, AttemptSettings, NotStarted, Unwanted
from .setup import SetupWatch
from .stand_by import StandBy
from .state import VM_ENDS, SavedState
from .steps import finish_stage, prepare_stage, succeeds_already
from .stopping import CommandStop, VmEnds
from .transfers.gang_travel import travelling
from .transfers.phases import Phases
from .transfers.preparation import CommandSecrets, Stage, StageCalls, StageFolders
from .transfers.tool import ToolFinder
from .watch.activity import ActivityWatch
from .watch.profile_watch import ProfileWatch
from .watch.stack_watch import StackWatch
from .watch.usage import VmUsage


class AgentAttempt:
    """A command on this VM. Its folder shows a later agent, also after a reboot, how far this one came."""

    def __init__(self, settings: AttemptSettings, token: str, metadata: Metadata, places: AgentPaths) -> None:
        self._settings, self._token, self._metadata = settings, token, metadata
        self._folder, self._volumes = os.path.join(places.home, "attempts", settings.attempt), places.volumes
        finder = ToolFinder.rclone(settings, token, places.home)
        self._credentials = CommandSecrets(settings, metadata, self._folder, finder)
        spool = Spool(os.path.join(self._folder, "spool"), settings.spool_most)
        self._state = SavedState(self._folder)
        on_go = (lambda _: None) if settings.gang else self._state.let_begin
        self._guard = EventSender(settings, token, spool, self._cancel, lambda number: self._drill.order(number), on_go)
        if settings.resume:
            self._state.begin_again()
        self._logs = places.logs
        self._log = self._log_of(self._state.run)
        self._step_file = settings.step_file or os.path.join(self._state.run_folder, "step", "step")
        for folder in (self._state.run_folder, places.logs, os.path.dirname(self._step_file)):
            make_folder(folder)
        if not settings.step_file:
            with contextlib.suppress(OSError):  # a container's user need not be root
                os.chmod(os.path.dirname(self._step_file), 0o1777)  # noqa: S103
        self._usage = VmUsage(self._folder)
        py_spy = ToolFinder.py_spy(settings, token, places.home)
        stacks = StackWatch(settings, py_spy, self._folder)
        profiles = ProfileWatch(settings, py_spy, self._folder, self._report_watched)
        watched = settings, self._usage.nvml, stacks, profiles
        self._activity = ActivityWatch(*watched, self._running, self._container_name, self._report_watched)
        plan = settings.checkpoint
        saves_to = on_the_vm(settings, plan.get("local") or plan.get("location", ""), places.volumes)
        self._reader = ProgressReader(settings, self._log, self._step_file, saves_to)
        self._travel = travelling(settings, self._folder, places.volumes, self._credentials, self._send)
        self._progress = CommandProgress(settings, self._log, self._reader, self._travel.evaluations)
        self._travel.read_metric = self._progress.read_metric
        self._pieces = self._pieces_of(self._state.run)
        self._checkpoints = DiskCheckpoints(settings, places.volumes, os.path.join(self._folder, "runs"))
        self._setup = SetupWatch(settings, self._state, self._log)
        self._liveness = Liveness(settings, self._log, py_spy)
        self._phases = Phases()
        self._reporting = threading.RLock()  # events of a run are in order
        self._over = threading.Event()
        self._stop = CommandStop(settings, self._state, self._guard)
        self._stop.when_noticed.append(lambda: self._pieces.hurry())
        self._stop.when_vm_ends.append(self._travel.hurry)
        work = DrillWork(self._stop.begin_drill, self._kill, self._send, self._note_end)
        self._drill = HeldDrill(
            settings, self._state, self._folder, self._volumes, self._credentials, self._travel, work
        )
        asks = request_file(self._step_file)
        self._saving = SaveRequests(
            settings, self._state, self._drill.place, asks, self._running, self._container_name, self._send
        )
        self._guard.on_save = self._saving.order
        self._standing = StandBy(settings, self._phases, self._send)
        self._gang = GangMember(
            settings, self._state, self._stop, self._standing, metadata, self._send, self._end_round
        )
        self._gang.save_now, self._gang.before = self._save_now, self._publish_earlier
        self._guard.on_answer = self._gang.hear
        self._is_again = False
        self._runner = RunnerWatch(self._state)

    def _log_of(self, run: int) -> str:
        return os.path.join(self._logs, f"{self._settings.attempt}.{run}.log")

    def _pieces_of(self, run: int) -> LogPieces:
        folder = os.path.join(self._folder, "runs", str(run))
        return LogPieces(self._settings, self._credentials, self._log_of(run), folder)

    def end(self, *_: Any) -> None:
        """The VM goes down. A signal handler: nothing here may take a lock."""
        self._stop.is_vm_ending = True

    def _cancel(self, why: str) -> None:
        self._stop.request(why, self._settings.cancel_grace_s)

    def work(self, wrong: list[str]) -> bool:
        """Returns when all events were accepted, or shortly after the VM begins to go down.

        True: a drill ended the command, and the agent is to begin again as after a restart of its own.
        """
        self._guard.start()
        self._send("boot", boot=boot_id(), python=sys.version.split()[0])
        if "exit" not in self._state.sent:
            for task in self._watchers():
                threading.Thread(target=task, daemon=True).start()
            self._attend(wrong)
        self._over.set()
        self._drill.close()
        if self._is_again:
            self._travel.close()
        self._pieces.hurry()  # so that its thread ends
        latest = time.monotonic() + LAST_WORDS_S if self._is_again else float("inf")
        while not self._guard.is_done() and time.monotonic() < latest:
            if self._stop.is_vm_ending:
                latest = min(latest, time.monotonic() + LAST_WORDS_S)
            self._stop.wait(self._settings.poll_s)
        return self._is_again and not self._stop.is_vm_ending

    def _save_now(self) -> None:
        self._travel.hurry()
        self._saving.ask_now()

    def _publish_earlier(self, wait: Callable[[float], None], is_first: bool) -> None:
        with self._phases.phase("saving"):
            self._travel.publish_earlier(wait, is_first)

    def _stand_by(self) -> Mapping[str, Any]:
        """Until it comes, another VM of the job trains."""
        return self._standing.until(lambda: self._state.go, self._stop.hold)

    def _watchers(self) -> list[Callable[[], object]]:
        """Returns the background work, each in a thread of its own, until the attempt is over."""
        settings, over, metadata, stop = self._settings, self._over, self._metadata, self._stop
        watchers: list[Callable[[], object]] = [
            lambda: self._usage.watch_gpus(settings.heartbeat_s, over),
            self._beat,
            lambda: self._activity.watch_gpus(over),
            lambda: self._activity.watch_counters(over),
            lambda: self._activity.watch(over),
            lambda: self._pieces.watch(over),
            lambda: self._checkpoints.watch(settings.look_s, over),
            lambda: self._reader.watch(settings.look_s, over),
            lambda: self._saving.watch(over),
            lambda: watch(metadata, "instance/preempted", stop.preempted, over, settings.retry_s),
            lambda: watch(metadata, "instance/maintenance-event", stop.maintained, over, settings.retry_s),
        ]
        if self._state.run > 1:  # the VM may have gone before the end of that run was stored
            earlier = self._pieces_of(self._state.run - 1)
            watchers.append(lambda: earlier.save(over.wait, is_last=True))
        return watchers

    def _attend(self, wrong: list[str]) -> None:
        held = lock(os.path.join(self._state.run_folder, "lock"))
        if held is not None:
            try:
                if not self._state.of_runner("begun.json"):
                    self._start(wrong, held)
            except VmEnds:
                return
            except RoundOver:
                self._gang.next_round()
                self._is_again = True
                return
            except (NotStarted, Trouble, TransferFailed, OSError, ValueError, KeyError) as problem:
                repeats = isinstance(problem, (NotStarted, TransferFailed)) and problem.repeats
                ended = {"reason": "not_started", "error": str(problem), "repeats": repeats, "ended_at": utc()}
                if isinstance(problem, PeersMissing):
                    self._is_again = self._gang.goes_on({**ended, "unreached": problem.unreached})
                if self._is_again:
                    return
                self._bring_away({}, lambda: self._pieces.save(self._stop.carry_on, is_last=True))
                self._report_exit(ended)
                return
            finally:
                os.close(held)
        self._travel.start()
        self._drill.go_on()
        while not self._is_over():
            self._stop.wait(self._settings.poll_s)

    def _start(self, wrong: list[str], held: int) -> None:
        if wrong:
            raise NotStarted(f"the attempt's settings are wrong: {'; '.join(wrong)}", True)
        settings, run = self._settings, self._state.run
        # A VM may be started only to fetch what is on its disk: the guard knows whether the job goes on.
        while run > 1 and self._state.drilled_boot != boot_id() and not self._guard.has_answered.is_set():
            self._stop.hold(settings.poll_s)
        more, resumed = ([], {}) if self._gang.is_one else self._drill.place.resume(run)
        stage = self._stage(self._gang.hold)
        prepare_stage(stage)
        resumed = resumed or self._gang.resumed(stage)
        write_json(os.path.join(self._state.run_folder, "resumed.json"), resumed)
        settings = settings._replace(**stage.changes)
        if (run > 1 or self._gang.is_one) and settings.plain_command:
            settings = settings._replace(command=settings.plain_command)
        settings = settings._replace(
            command=stage.launched_by([*settings.command, *more, *stage.arguments]),
            environment={**settings.environment, **stage.environment},
        )
        order = prepare(settings, stage.secrets, self._folder, run, self._step_file, stage.image)
        order["log"] = self._log
        order["hidden"] += [self._token, *self._gang.secret]
        self._gang.hold(0)
        self._runner.start(order, held)

    def _is_over(self) -> bool:
        """Looks at the runner's files once: reports the start, stops the command if requested, reports the exit."""
        self._stop.request_if_vm_ends()
        is_gone = self._runner.is_gone()  # before its last file is looked for
        command = self._report_start()
        pid = command["pid"] if command else self._setup.pid
        if pid:
            self._stop.apply(pid)
            self._gang.apply(pid)
        ended = self._state.of_runner("exit.json")
        if is_gone and not ended:
            is_reboot = not self._state.is_of_this_boot()
            left = command or self._state.of_runner("setup.json")
            if not is_reboot and left and birth(left["pid"]) == left["birth"]:
                self._stop.kill(left["pid"])
            why = "the VM was restarted" if is_reboot else "the process that held the command's output was ended"
            ended = {"reason": "cut_off", "error": why, "ended_at": utc()}
        if ended:
            self._is_again = self._drill.ends(ended, self._look_out) or self._gang.goes_on(ended)
            if not self._is_again:
                self._finish(dict(ended))
        return bool(ended)

    def _look_out(self, seconds: float) -> None:
        self._stop.request_if_vm_ends()
        self._stop.wait(seconds)

    def _kill(self) -> None:
        if command := self._state.of_runner("command.json"):
            self._stop.kill(command["pid"])

    def _send(self, kind: str, is_urgent: bool = True, **event: Any) -> None:
        self._guard.send(kind, is_urgent, run=self._state.known_run, **{**self._gang.fields(), **event})

    def _stage(self, wait: Callable[[float], None]) -> Stage:
        run, send = self._state.run, self._send
        stage = Stage(
            self._settings,
            run,
            StageFolders(self._folder, self._state.run_folder, self._volumes, self._log),
            wait,
            self._credentials,
            send,
            self._phases,
            StageCalls(
                self._token,
                self._travel.prepare if self._travel.is_wanted else None,
                self._stand_by if self._settings.stands_by and run == 1 else None,
            ),
        )
        self._gang.join(stage, self._step_file)
        return stage

    def _finish(self, ended: dict[str, Any]) -> None:
        """Brings away what must outlast the VM, then reports the exit; first of all where the VM ends in seconds."""
        why = self._state.stop.get("why", "")
        if self._stop.ends_in_seconds:
            self._report_exit(ended)
        self._stop.in_last_seconds.append(lambda: self._report_exit(ended))
        if succeeds_already(self._settings, ended, why):
            ended["asked"] = None  # whatever stop is requested from here on
        with self._phases.phase("saving"):
            self._bring_away(ended, lambda: self._travel.finish(self._stop.carry_on, why))
        self._bring_away(ended, lambda: finish_stage(self._stage(self._stop.carry_on), ended, why))
        self._bring_away({}, lambda: self._pieces.save(self._stop.carry_on, is_last=True))
        self._report_exit(ended)

    def _end_round(self, ended: dict[str, Any]) -> None:
        """Reports the end of a round that is not the attempt's, once all that it left is brought away."""
        self._stop.in_last_seconds.append(lambda: self._report_exit(ended))
        self._bring_away(ended, lambda: self._travel.finish(self._stop.carry_on, ""))
        self._bring_away({}, lambda: self._pieces.save(self._stop.carry_on, is_last=True))
        self._report_exit(ended, "round_ended")

    def _bring_away(self, ended: dict[str, Any], work: Callable[[], object]) -> None:
        try:
            work()
        except Unwanted as unwanted:
            ended.pop("asked", None)
            say(str(unwanted))
        except Exception as problem:  # the exit is reported, whatever a step meets
            say(f"not all was brought away: {problem!r}")

    def _report_start(self) -> dict[str, Any]:
        """Reports the start once the command runs. Returns the runner's note of it; empty before."""
        command = self._state.of_runner("command.json")
        if command:
            resumed = self._state.of_runner("resumed.json")
            fields = {"pid": command["pid"], "started_at": command["started_at"], "image": self._settings.image}
            fields.update(self._setup.start())
            self._report_once("start", **fields, **({"checkpoint": resumed} if resumed else {}))
        return command

    def _report_once(self, kind: str, **event: Any) -> None:
        with self._reporting:
            if kind not in self._state.sent:
                self._send(kind, **event)
                self._state.mark_reported(kind)

    def _report_exit(self, ended: Mapping[str, Any], kind: str = "exit") -> None:
        if "exit" in self._state.sent:
            return
        why = self._state.stop.get("why")
        how = {"code": None, "signal": None, "error": "", "repeats": False, "asked": why, **ended}
        usage = self._usage.look(3 * self._settings.heartbeat_s + 20)
        # Where the VM ends only seconds are left, and the next run looks before it begins.
        saved = {"checkpoint": self._checkpoints.look()} if self._checkpoints.is_on_disk and why not in VM_ENDS else {}
        fields = {**how, "was_killed": self._stop.was_killed, "machine": usage, **saved, **self._phases.fields()}
        last = {**self._progress.final(), **self._setup.exit(how["reason"])}
        self._report_points(is_final=True)
        if self._checkpoints.is_on_disk:
            self._note_end({**how, **last})
        self._report_once(kind, **fields, **last)

    def _note_end(self, ended: Mapping[str, Any]) -> None:
        """Notes the end for a later run, which decides by it whether to trust the checkpoint that this one resumed
        from.
        """
        started_at = self._state.of_runner("command.json").get("started_at")
        kept = {name: ended.get(name) for name in ("reason", "code", "asked", "ended_at", "step")}
        with contextlib.suppress(OSError):
            write_json(os.path.join(self._state.run_folder, "ended.json"), {**kept, "started_at": started_at})

    def _running(self) -> int:
        """The command's process; 0 before and after it runs."""
        is_over = bool(self._state.of_runner("exit.json")) or "exit" in self._state.sent
        return 0 if is_over else self._state.of_runner("command.json").get("pid", 0)

    def _container_name(self) -> str:
        return container(self._settings, self._state.run) if self._settings.image else ""

    def _report_watched(self, kind: str, **fields: Any) -> None:
        with self._reporting:
            if "exit" not in self._state.sent:
                self._send(kind, is_urgent=False, **fields)

    def _beat(self) -> None:
        while not self._over.wait(self._settings.heartbeat_s):
            try:
                self._report_heartbeat()
            except Exception as error:  # a heartbeat that fails must not be the last
                say(f"no heartbeat: {error!r}")

    def _report_heartbeat(self) -> None:
        """Reads progress before it looks for the start, so that no progress is reported before the start."""
        usage = self._usage.look(3 * self._settings.heartbeat_s + 20)
        progress = self._progress.now()
        self._drill.see(progress["step"])
        with self._reporting:
            command = {} if self._gang.is_between_rounds else self._report_start()
            if "exit" not in self._state.sent:
                fields = {
                    "run": self._state.known_run,
                    **self._gang.fields(),
                    "is_running": bool(command),
                    "machine": usage,
                    **self._checkpoints.news(),
                    **self._phases.fields(),
                }
                fields.update(progress if command else {**NO_PROGRESS, **self._setup.heartbeat()})
                if command and not self._state.stop and self._drill.phase != "stopping":
                    fields.update(self._liveness.look(command["pid"], fields))
                self._guard.send("heartbeat", is_urgent=False, **fields)
                if command:
                    self._report_points()

    def _report_points(self, is_final: bool = False) -> None:
        points = self._progress.points(is_final)
        if points:
            self._send("progress", is_urgent=False, points=points)
