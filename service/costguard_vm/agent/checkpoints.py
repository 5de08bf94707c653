"""The checkpoints on this VM's disk, judged by the server's own rules, which travel with the agent."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

from costguard_vm.checkpoints.folder import Folder, TooManyFiles
from costguard_vm.checkpoints.judge import judge
from costguard_vm.checkpoints.layouts.base import RangeReader
from costguard_vm.model.checkpoint import Framework, Listing, LookFor, filled
from costguard_vm.model.suspects import ResumedRun, suspects, trusted

from .files import read_json, say, utc, utc_of
from .settings import AttemptSettings, NotStarted


class DiskCheckpoints:
    """The checkpoints that the command saves on the disk. `runs` is the folder with notes of each run.

    `volumes` is the folder below which the sources of mounts lie: "" except for simulated VMs.
    """

    def __init__(self, settings: AttemptSettings, volumes: str = "", runs: str = "") -> None:
        self._settings = settings
        self._runs = runs
        self._failed: tuple[ResumedRun, ...] = ()  # earlier runs that failed at once after they resumed
        # What travels to a bucket is watched by travel.py.
        self._location = "" if settings.checkpoint.get("local") else settings.checkpoint.get("location", "")
        self._path = on_the_vm(settings, self._location, volumes)
        self._lock = threading.Lock()
        self._news: dict[str, Any] = {}

    @property
    def is_on_disk(self) -> bool:
        return bool(self._location)

    def open(self) -> tuple[Listing, RangeReader]:
        """Raises OSError and TooManyFiles."""
        folder = Folder(self._path, self._location)
        return folder.listing(), folder

    def look(self) -> dict[str, Any]:
        """The newest complete checkpoint as the event's field `checkpoint`; `error` where it cannot be known."""
        seen: dict[str, Any] = {
            "looked_at": utc(),
            "resume_from": "",
            "step": None,
            "written_at": None,
            "torn": [],
            "error": "",
            "why": "",
        }
        try:
            try:
                listing, reader = self.open()
            except FileNotFoundError:  # nothing has been saved yet
                return {**seen, "files": 0}
            look, _, why = trusted(lambda most: judge(listing, self.look_for, reader, examine=most), self._failed)
        except TooManyFiles:
            error = f"{self._location} holds too many files to be one run's checkpoints"
            return {**seen, "files": None, "error": error}
        except Exception as problem:  # a rule that fails on odd files must not end the agent
            return {**seen, "files": None, "error": f"{self._location} cannot be read: {problem}"}
        seen["unrecognised"] = look.unprotected(datetime.now(timezone.utc))
        seen.update(files=None if listing.unread else len(listing.files), torn=list(look.passed_over), why=why)
        if look.resume is not None:
            best = look.resume
            written_at = utc_of(best.written_at.timestamp())
            seen.update(resume_from=best.resume_from, step=best.step, written_at=written_at)
        return seen

    def watch(self, every_s: float, over: threading.Event) -> None:
        """Separate from heartbeats, which must not wait for a slow disk."""
        while self.is_on_disk and not over.wait(every_s):
            seen = self.look()
            with self._lock:
                self._news = seen

    def news(self) -> dict[str, Any]:
        """The latest look as a field of an event, once; empty where there is none."""
        with self._lock:
            news, self._news = self._news, {}
        return {"checkpoint": news} if news else {}

    def resume(self, run: int) -> tuple[list[str], dict[str, Any]]:
        """The arguments with which this run's command resumes, and what it resumes from.

        The first run finds an empty disk. Raises NotStarted where the disk cannot be read: starting from the
        beginning could cost days of work.
        """
        if not self.is_on_disk or run == 1:
            return [], {}
        self._failed = failed_runs(self._runs, run, self._settings.quick_crash_s)
        seen = self.look()
        if seen["why"]:
            say(seen["why"])
        if seen["error"]:
            raise NotStarted(f"the checkpoints on its disk cannot be looked at: {seen['error']}")
        if not seen["resume_from"]:
            say(f"there is no complete checkpoint in {self._location}: the command starts from the beginning")
            return [], seen
        words = filled(self._settings.resume_arguments, seen["resume_from"], self._location, seen["step"])
        return words, seen

    @property
    def look_for(self) -> LookFor:
        plan = self._settings.checkpoint
        framework = Framework(plan["framework"]) if plan.get("framework") else None
        return LookFor(framework, plan.get("pattern", ""), plan.get("marker", ""))


def failed_runs(runs: str, run: int, quick_crash_s: float) -> tuple[ResumedRun, ...]:
    """The runs before this one that failed at once after they resumed, by their notes."""
    earlier = (_resumed_run(os.path.join(runs, str(number)), number) for number in range(1, run))
    return suspects((one for one in earlier if one is not None), timedelta(seconds=quick_crash_s))


def _resumed_run(folder: str, number: int) -> ResumedRun | None:
    resumed, ended = (read_json(os.path.join(folder, name)) for name in ("resumed.json", "ended.json"))
    if not resumed.get("resume_from") or not ended:
        return None
    started_at, ended_at = ended.get("started_at"), ended.get("ended_at")
    ran = timedelta()
    if started_at and ended_at:
        ran = datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)
    return ResumedRun(
        number=number,
        title=f"run {number}",
        resume_from=resumed["resume_from"],
        resume_step=resumed.get("step"),
        resumed_at=datetime.fromisoformat(resumed["looked_at"]),
        step=ended.get("step"),
        ran=ran,
        is_crash=ended.get("reason") == "exited" and not ended.get("asked") and ended.get("code") != 0,
    )


def on_the_vm(settings: AttemptSettings, location: str, volumes: str) -> str:
    """The path on the VM of a path that the command sees: with an image, in the folder mounted there."""
    if not settings.image:
        return location
    best = ""
    path = location
    for mount in settings.mounts:
        source, inside = [*mount.split(":"), ""][:2]
        inside = inside.rstrip("/")
        if len(inside) >= len(best) and (location == inside or location.startswith(inside + "/")):
            best, path = inside, volumes + os.path.join(source, location[len(inside) :].lstrip("/"))
    return path
