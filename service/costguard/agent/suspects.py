"""Checkpoints that a later run on this VM passes over though they look complete: a run that resumed from one failed
at once. The guard has the same rule for buckets: jobs/suspects.py.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from costguard.model.checkpoint import Checkpoint

from .files import read_json

LONGEST_S = 3600  # of loading and the first step, where the command reports its steps


def suspects(runs: str, run: int, quick_crash_s: float) -> list[dict[str, Any]]:
    """What those runs before this one resumed from that failed at once, less what served a later one."""
    failed: dict[str, dict[str, Any]] = {}
    for number in range(1, run):
        resumed = read_json(os.path.join(runs, str(number), "resumed.json"))
        ended = read_json(os.path.join(runs, str(number), "ended.json"))
        checkpoint = resumed.get("resume_from")
        if not checkpoint or not ended:
            continue
        if _failed_at_once(resumed, ended, quick_crash_s):
            failed[checkpoint] = {**resumed, "run": number}
        elif _came_further(resumed, ended):
            failed.pop(checkpoint, None)
    return sorted(failed.values(), key=lambda one: int(one["run"]))


def suspected_by(checkpoint: Checkpoint, failed: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The run that speaks against it. One that was written again since is another checkpoint."""
    return next(
        (
            one
            for one in failed
            if one["resume_from"] == checkpoint.resume_from
            and checkpoint.written_at <= datetime.fromisoformat(one["looked_at"])
        ),
        None,
    )


def passed_over(failure: dict[str, Any]) -> str:
    """Why the next run does not resume from the same."""
    return f"{_of(failure)}: the complete checkpoint before it is tried"


def tried_again(failure: dict[str, Any]) -> str:
    """Why the next run resumes from the same though it is suspected."""
    return f"{_of(failure)}, and no other is complete: it is tried once more"


def _of(failure: dict[str, Any]) -> str:
    step = f"step {failure['step']}, " if failure.get("step") is not None else ""
    return f"run {failure['run']} failed at once after it resumed from {step}{failure['resume_from']}"


def _failed_at_once(resumed: dict[str, Any], ended: dict[str, Any], quick_crash_s: float) -> bool:
    """A command that came further has loaded its checkpoint, so that what failed it was something else."""
    if ended.get("reason") != "exited" or ended.get("asked") or ended.get("code") == 0:
        return False
    started_at, ended_at = ended.get("started_at"), ended.get("ended_at")
    ran_s = 0.0
    if started_at and ended_at:
        ran_s = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)).total_seconds()
    if ended.get("step") is None or resumed.get("step") is None:
        return ran_s < quick_crash_s
    return not _came_further(resumed, ended) and ran_s < LONGEST_S


def _came_further(resumed: dict[str, Any], ended: dict[str, Any]) -> bool:
    step, since = ended.get("step"), resumed.get("step")
    return step is not None and since is not None and step > since
