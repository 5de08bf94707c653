"""Checkpoints that travel by themselves: from the folder where the command saves to a bucket, and back to the next VM.

A thread of its own looks at the folder. A checkpoint is uploaded once it is complete by its layout's rule and unchanged
between two looks; after the command has ended, one look is enough. From a notice on, the newest goes first.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Callable

from costguard_vm.agent.checkpoints import on_the_vm
from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.files import read_json, say, utc, write, write_json
from costguard_vm.agent.processes import Gentle
from costguard_vm.agent.settings import AttemptSettings, NotStarted
from costguard_vm.checkpoints.best import Best, Evaluations
from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.judge import age, candidates, judge, verdict_on
from costguard_vm.checkpoints.layouts.base import CandidateCheckpoint, join
from costguard_vm.model.checkpoint import CheckpointState, Framework, Listing, LookFor, filled

from .preparation import CommandSecrets, Stage
from .remote import RemoteCheckpoints, Upload, fingerprint, planned, pointer, slot_of, step_of
from .transfer import Transfer, TransferProgress
from .upload_pace import UploadPace

LOOK_S = 15.0  # at most between two looks; a look reads names, and of a new checkpoint a few ranges
HURRIED_S = 2.0  # after a notice
CLOSE_S = 10.0


def _chosen(go: Mapping[str, Any]) -> dict[str, str]:
    """Returns the guard's choice when it let a VM that stood by begin; in a round of several VMs no other counts."""
    step = {} if go.get("step") is None else {"step": str(go["step"])}
    is_chosen = bool(go.get("resume_from")) or "round" in go
    return {"resume_from": go["resume_from"], **step} if is_chosen else {}


class Interrupted(Exception):
    """A newer checkpoint is to be uploaded first, or the time is over."""


class TravellingCheckpoints:
    """`folder` is the attempt's. Nothing happens where the settings name no local folder."""

    def __init__(
        self, settings: AttemptSettings, folder: str, volumes: str, secrets: CommandSecrets, send: Callable[..., None]
    ) -> None:
        plan = settings.checkpoint
        framework = Framework(plan["framework"]) if plan.get("framework") else None
        self._settings, self._secrets, self._send = settings, secrets, send
        self._look_for = LookFor(framework, plan.get("pattern", ""), plan.get("marker", ""))
        self._local = plan.get("local", "")
        self._tells = settings.gang.get("node", "0") == "0"  # of several VMs, the first says what became of checkpoints
        self._uploads = self._tells
        self._path = on_the_vm(settings, self._local, volumes)
        self._remote = RemoteCheckpoints(
            plan.get("location", ""), self._look_for, int(plan.get("keep", "3")), self._better()
        )
        self._noted = os.path.join(folder, "uploaded.json")
        self._uploaded: dict[str, str] = read_json(self._noted)  # fingerprints by name
        self._every = min(settings.look_s, LOOK_S)
        self._wake, self._over, self._done = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._is_hurried = self._is_final = self._is_known = False
        self._earlier: Listing | None = None
        self._earlier_at = float("-inf")
        self._current = ""
        self._checked = (False, False)
        self._saved: list[str] = []
        self.uploaded_at: dict[str, float] = {}  # by this process, by name
        self._trouble, self._is_warned = "", False
        self._best: Best | None = None  # as it was reported last
        self.read_metric: Callable[[], object] = lambda: None  # puts what was printed since into the evaluations
        self.progress = TransferProgress()
        self._pace = UploadPace()

    def _better(self) -> str:
        """Returns the better direction of the job's metric; "" where it names none."""
        return self._settings.metric_better if self._settings.metric_pattern else ""

    @property
    def evaluations(self) -> Evaluations:
        """Returns what the metric's values are put into as they are printed."""
        return self._remote.evaluations

    @property
    def is_wanted(self) -> bool:
        return bool(self._local)

    def prepare(self, stage: Stage) -> None:
        """Downloads what the run resumes from, and adds the arguments for it. Raises TransferFailed or NotStarted.

        A location that cannot be written to is known here, and not when the first checkpoint is complete.
        """
        if stage.run > 1 and "round" not in stage.go:  # the folder holds what an earlier run of this VM saved
            return
        transfer, plan = stage.transfer, {**self._settings.checkpoint, **_chosen(stage.go)}
        whole = self._remote.read_in(transfer)
        self._is_known = True
        if self._uploads:
            self._remote.try_out(transfer, self._settings.attempt)
            self._remote.clean(transfer)
        wanted = plan.get("resume_from", "")
        if not wanted:
            self._make_ready(None)
            return
        # Of a folder that it shares with its VMs the guard names the path alone.
        address = f"file://{wanted}" if wanted.startswith("/") else wanted
        seen = [one for one in whole if join(self._remote.location, one.resume_path) == address]
        if not seen:
            raise NotStarted(f"{wanted}, which the job was to resume from, is not complete there any more")
        best = seen[0]
        self._remote.protect(best.name)
        self._make_ready(best)
        resume_path = self._download(transfer, best)
        checkpoint = join(self._local, resume_path)
        step = int(plan["step"]) if plan.get("step") else best.step
        stage.arguments += filled(self._settings.resume_arguments, checkpoint, self._local, step)

    def _make_ready(self, best: CandidateCheckpoint | None) -> None:
        """Prepares the folder for what the run resumes from; None: from nothing."""

    def _download(self, transfer: Transfer, best: CandidateCheckpoint) -> str:
        """Returns its path below the local folder. What is there already, verified, is not downloaded again."""
        slot = slot_of(best.name)
        if self._remote.is_file:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            transfer.download(self._remote.location, self._path, self._note)
        else:
            names = [file.path[len(slot) :] for file in best.files.values()]
            transfer.download(join(self._remote.location, slot.rstrip("/")), self._path, self._note, only=names)
            for name, content in pointer(replace(best, name=best.name[len(slot) :])).items():
                write(os.path.join(self._path, name), content)
        folder = Folder(self._path, self._local)
        listing = folder.listing()
        name = best.name[len(slot) :]
        seen = candidates(listing, self._look_for, folder)
        here = [one for one in seen if one.name == (name or ".")]
        problems = verdict_on(here[0], folder, None, is_wanted=True)[1] if here else ["it is not recognised."]
        if problems:
            raise NotStarted(f"{best.name} was downloaded, and is not complete: {' '.join(problems)}")
        self._note_uploaded(here[0], listing)
        return here[0].resume_path

    def _make_folder(self) -> None:
        if not os.path.isdir(self._path):
            os.makedirs(self._path)
            os.chmod(self._path, 0o777 if self._settings.image else 0o755)

    def publish_earlier(self, wait: Callable[[float], None], is_first: bool) -> None:
        """Brings what rounds of several VMs left to an end, before another one begins."""

    def start(self) -> None:
        """Begins to watch, once the command is about to start; also after a restart of the agent."""
        if self.is_wanted and self._uploads and self._thread is None and not self._over.is_set():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def hurry(self) -> None:
        """The VM ends within seconds."""
        self._is_hurried = True
        self._wake.set()

    def finish(self, wait: Callable[[float], None], why: str) -> None:
        """Uploads complete checkpoints after the command's end, and reports them. `wait` raises when time is up."""
        if self._thread is None:
            return
        try:
            self.settle(wait)
        finally:
            self._over.set()
            self._wake.set()
            left = self._left()
            if why and (self._tells or left):
                self._send("flushed", why=why, saved=self._saved[-20:], left=left[:20], error=self._trouble)

    def settle(self, wait: Callable[[float], None]) -> None:
        """Uploads what is complete once the command has ended. `wait` raises when time is up."""
        self._is_final = True
        self._wake.set()
        while self._thread is not None and not self._done.is_set():
            wait(self._settings.poll_s)

    def close(self) -> None:
        """Stops an upload that another process is to begin again."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _left(self) -> list[str]:
        """The complete checkpoints newer than what was uploaded, which did not make it."""
        try:
            left = self._names_wanted()
        except Exception as problem:  # the report is sent all the same
            say(f"{self._local} cannot be read: {problem!r}")
            return []
        return left

    def _names_wanted(self, earlier: Listing | None = None) -> list[str]:
        return [upload.candidate.name for upload in self._wanted(self._listing(), earlier)]

    def _watch(self) -> None:
        while not self._is_known and not self._over.is_set():  # an earlier agent prepared this run
            try:
                self._remote.read_in(self._secrets.transfer(self._wait, is_gentle=True))
                self._is_known = True
            except Exception as problem:
                self._complain(problem)
                self._over.wait(self._every)
        while not self._over.is_set():
            is_last = self._is_final
            try:
                is_more = self.look(is_last)
            except Interrupted:
                is_more = True
            except Exception as problem:  # one trouble must not be the last look
                self._complain(problem)
                is_more = False
            is_awaiting = is_last and not is_more and self.awaits()
            if is_last and not is_more and not is_awaiting:
                self._done.set()
                return
            if not is_more and (is_awaiting or not self._is_final):
                self._wake.wait(min(self._every, HURRIED_S) if self._is_hurried or is_awaiting else self._every)
                self._wake.clear()

    def awaits(self) -> bool:
        """Says whether something is still expected of other VMs after the last look."""
        return False

    def _complain(self, problem: Exception) -> None:
        text = str(problem) if isinstance(problem, TransferFailed) else repr(problem)
        say(f"checkpoints are not uploaded: {text}")
        if text != self._trouble:
            self._trouble = text
            self._send("not_uploaded", error=text)

    def _listing(self) -> Listing:
        try:
            return Folder(self._path, self._local).listing()
        except FileNotFoundError:
            return Listing(self._local, {})

    def look(self, is_last: bool) -> bool:
        """Uploads the newest that is not there yet. Returns whether another look is due at once."""
        listing = self._listing()
        wanted = self._wanted(listing, None if is_last else self._earlier)
        self._note_look(listing)
        if not wanted:
            self._warn_of_unrecognised(listing)
            if self._better():  # an evaluation is often printed after its step was saved
                self._note_best(self._secrets.transfer(self._wait, self._gentle))
            return False
        self._upload(wanted[0], listing)
        return True

    def _note_look(self, listing: Listing) -> None:
        """Keeps a listing to compare the next one with, unless the last one that was kept is too young."""
        now = time.monotonic()
        if now - self._earlier_at >= min(self._every, HURRIED_S if self._is_hurried else self._every) / 2:
            self._earlier, self._earlier_at = listing, now

    def _warn_of_unrecognised(self, listing: Listing) -> None:
        """Warns once: nothing was ever recognised in the folder, and its files look like checkpoints."""
        if self._is_warned or self._uploaded or not listing.files:
            return
        folder = Folder(self._path, self._local)
        text = judge(listing, self._look_for, folder).unprotected(datetime.now(timezone.utc))
        if text:
            self._is_warned = True
            self._send("unrecognised", text=text)

    def _wanted(self, listing: Listing, earlier: Listing | None) -> list[Upload]:
        """The complete checkpoints that are not at the location, the newest first; of many, as many as are kept.

        The best by the job's metric is one of them, however many newer ones there are.
        """
        if earlier is None and not self._is_final:
            return []
        folder = Folder(self._path, self._local)
        chosen: list[Upload] = []
        rank, most = 0, int(self._settings.checkpoint.get("keep", "3"))
        newest = sorted(candidates(listing, self._look_for, folder), key=age, reverse=True)
        best = self._remote.best_of([(one.name, step_of(one.step)) for one in newest])
        for one in newest:
            if most and rank >= most and one.name != best:
                continue
            if self._uploaded.get(one.name) == fingerprint(one, listing):
                rank += 1
                continue
            state, _ = verdict_on(one, folder, earlier, is_wanted=True)
            if state is CheckpointState.COMPLETE:
                self._pace.seen(one.name, [file.modified_at for file in one.files.values()])
            upload = planned(one, listing, self._look_for) if state is CheckpointState.COMPLETE else None
            if upload is not None:
                rank += 1
                chosen.append(upload)
        return chosen

    def _upload(self, upload: Upload, listing: Listing) -> None:
        one = upload.candidate
        before = fingerprint(one, listing)

        def is_unchanged() -> bool:
            return fingerprint(one, self._listing()) == before

        self._current, self._checked = one.name, (self._is_hurried, self._is_final)
        transfer = self._secrets.transfer(self._wait, self._gentle)
        started_at = time.monotonic()
        try:
            self._remote.upload(transfer, upload, self._path, is_unchanged, self._note)
        finally:
            self._current = ""
        self._uploaded[one.name] = before
        self._pace.uploaded(one.name)
        write_json(self._noted, self._uploaded)
        self._saved.append(one.name)
        self.uploaded_at[one.name] = time.time()
        self._trouble = ""
        self._report_saved(one, time.monotonic() - started_at)
        if self._is_hurried:
            self._note_best(transfer)
        else:
            self._trim(transfer)

    @property
    def _gentle(self) -> Gentle:
        """Returns for how long an upload leaves the CPU to the command: as long as uploads keep up with its saves; not
        at all after a notice or its end.
        """
        if self._is_hurried or self._is_final:
            return False
        return lambda: not (self._is_hurried or self._is_final or self._pace.is_behind(datetime.now(timezone.utc)))

    def _report_saved(self, one: CandidateCheckpoint, took_s: float) -> None:
        size = sum(file.size for file in one.files.values())
        seconds = round(took_s, 1)
        self._send("saved", is_urgent=False, name=one.name, step=one.step, bytes=size, seconds=seconds, saved_at=utc())

    def _trim(self, transfer: Transfer) -> None:
        """Deletes old checkpoints, by what the metric was up to now."""
        self.read_metric()
        self._tell_best(self._remote.trim(transfer))

    def _note_best(self, transfer: Transfer) -> None:
        """Notes the best by what the metric was up to now, which the agent of the next VM spares; deletes nothing."""
        self.read_metric()
        self._tell_best(self._remote.best(transfer))

    def _tell_best(self, best: Best | None) -> None:
        """Reports the best checkpoint by the job's metric, whenever it is another one or has another value."""
        if best is not None and best != self._best:
            self._best, place = best, join(self._remote.location, best.name)
            self._send("best", is_urgent=False, place=place, of_step=best.step, value=repr(best.value))

    def _note(self, progress: TransferProgress) -> None:
        self.progress = progress

    def _note_uploaded(self, one: CandidateCheckpoint, listing: Listing) -> None:
        self._uploaded[one.name] = fingerprint(one, listing)
        write_json(self._noted, self._uploaded)

    def _wait(self, seconds: float) -> None:
        """Waits for this thread's transfers.

        Once after a notice, and once after the command's end, it asks what is newest.
        """
        if seconds and not self._over.is_set():
            self._over.wait(seconds)
        if self._over.is_set():
            raise Interrupted
        state = (self._is_hurried, self._is_final)
        if state != self._checked and self._current:
            self._checked = state
            newest = self._names_wanted(None if self._is_final else self._earlier)
            if newest and newest[0] != self._current:
                raise Interrupted
