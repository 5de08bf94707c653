"""What the command has saved on this VM's disk, judged by the guard's own rules, which travel with the agent."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from datetime import timezone
from typing import Any

from costguard.checkpoints.folder import Folder, TooManyFiles
from costguard.checkpoints.judge import judge
from costguard.model.checkpoint import CheckpointLook, Framework, Listing, LookFor, filled

from .files import say, utc
from .settings import NotStarted, Settings
from .suspects import passed_over, suspected_by, suspects, tried_again


class Saved:
    """`volumes` is what the sources of mounts lie below: nothing, but for a simulated VM. `runs` has notes of each."""

    def __init__(self, settings: Settings, volumes: str = "", runs: str = "") -> None:
        self._settings = settings
        self._runs = runs
        self._failed: list[dict[str, Any]] = []  # what earlier runs resumed from that failed at once
        self._location = settings.checkpoint.get("location", "")
        self._path = on_the_vm(settings, volumes)
        self._lock = threading.Lock()
        self._news: dict[str, Any] = {}

    @property
    def is_on_disk(self) -> bool:
        return bool(self._location)

    def look(self) -> dict[str, Any]:
        """The newest complete checkpoint as the event's field `checkpoint`; `error` where nobody can tell."""
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
            folder = Folder(self._path, self._location)
            try:
                listing = folder.listing()
            except FileNotFoundError:  # nothing has been saved yet
                return {**seen, "files": 0}
            found, why = self._trusted(listing, folder)
        except TooManyFiles:
            return {
                **seen,
                "files": None,
                "error": f"{self._location} holds too many files to be one run's checkpoints",
            }
        except Exception as problem:  # a rule that fails on odd files must not end the agent
            return {**seen, "files": None, "error": f"{self._location} cannot be read: {problem}"}
        seen.update(files=len(listing.files), torn=list(found.passed_over), why=why)
        if listing.unread:
            seen["files"] = None
        if found.resume is not None:
            best = found.resume
            written_at = best.written_at.astimezone(timezone.utc).isoformat(timespec="milliseconds")
            seen.update(resume_from=best.resume_from, step=best.step, written_at=written_at)
        return seen

    def watch(self, every_s: float, over: threading.Event) -> None:
        """Apart from heartbeats, which must not wait for a slow disk."""
        while self.is_on_disk and not over.wait(every_s):
            seen = self.look()
            with self._lock:
                self._news = seen

    def news(self) -> dict[str, Any]:
        """The latest look as a field of an event, once; empty where there is none."""
        with self._lock:
            news, self._news = self._news, {}
        return {"checkpoint": news} if news else {}

    def resumed(self, run: int) -> tuple[list[str], dict[str, Any]]:
        """The words that make the command of this run resume, and what it resumes from.

        The first run finds an empty disk. Raises NotStarted where it is not known what lies there: to begin again from
        the beginning could cost days of work.
        """
        if not self.is_on_disk or run == 1:
            return [], {}
        self._failed = suspects(self._runs, run, self._settings.quick_crash_s)
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

    def _trusted(self, listing: Listing, folder: Folder) -> tuple[CheckpointLook, str]:
        """A look whose `resume` is no checkpoint that a run failed with at once, while there is another; and why."""
        found = judge(listing, self._look_for(), folder)
        failure = suspected_by(found.resume, self._failed) if found.resume is not None else None
        if failure is None:
            return found, ""
        whole = judge(listing, self._look_for(), folder, examine=len(found.checkpoints))
        complete = [one for one in whole.checkpoints if one.is_complete]
        other = next((one for one in complete if suspected_by(one, self._failed) is None), None)
        if other is None:
            return found, tried_again(failure)
        return replace(whole, resume=other), passed_over(failure)

    def _look_for(self) -> LookFor:
        plan = self._settings.checkpoint
        framework = Framework(plan["framework"]) if plan.get("framework") else None
        return LookFor(framework, plan.get("pattern", ""), plan.get("marker", ""))


def on_the_vm(settings: Settings, volumes: str) -> str:
    """Where the command's folder of checkpoints lies on the VM: in an image, in the folder that is mounted there."""
    location = settings.checkpoint.get("location", "")
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
