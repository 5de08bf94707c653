"""Publishes one complete checkpoint as the job's result: the best by its metric, or the newest.

It is chosen among those that lie whole at the location, by the values that are noted there, once nothing is uploaded
any more. The provider copies its files on its own servers, and `_SUCCESS`, which says what was published, is written
last: a folder without it is not published. Which files are being copied is noted first, so that a later agent, or the
agent of the next VM, removes half a result.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.agent.files import utc
from costguard_vm.agent.settings import Unwanted
from costguard_vm.checkpoints.layouts.base import join
from costguard_vm.model.checkpoint import Framework, LookFor

from .outputs import MARKER, WAITING, clean_up, delete, marker_of, with_patience
from .phases import ReportedTransfer
from .preparation import Stage
from .remote import Chosen, RemoteCheckpoints, slot_of
from .transfer import Transfer

BEST = "best"


class _Files(NamedTuple):
    """The files of a checkpoint, named from `folder` on, and contents of our own that belong to it."""

    folder: str
    names: list[str]
    written: Mapping[str, bytes]


class ResultPublisher:
    """The result of one run. Several runs of a job may try, one after the other."""

    def __init__(self, stage: Stage) -> None:
        settings = stage.settings
        plan = settings.checkpoint
        framework = Framework(plan["framework"]) if plan.get("framework") else None
        self._stage, self._job, self._own = stage, settings.job, f"{settings.attempt}.{stage.run}"
        self._look_for = LookFor(framework, plan.get("pattern", ""), plan.get("marker", ""))
        self._location, self._is_best = plan.get("location", ""), settings.publish.get("which") == BEST
        self._to = settings.publish["to"].rstrip("/")
        self._waiting = f"{self._to}/{WAITING}"
        self._note = f"{self._waiting}/{self._own}.json"

    def prepare(self) -> None:
        """Removes what earlier attempts left, and proves that this one may write. Raises TransferFailed."""
        transfer = self._stage.transfer
        if not self._to.startswith("file:"):
            probe = f"{self._waiting}/{self._own}.probe"
            transfer.write(probe, b"may this attempt write here?\n")
            transfer.delete(self._waiting, [f"{self._own}.probe"])
        clean_up(transfer, self._waiting, self._to, self._job, self._own)

    def publish(self) -> None:
        """Raises TransferFailed."""
        reported = self._stage.phases.transfer("result", self._location, self._stage.settings.publish["to"])
        with_patience(self._stage, reported, partial(self._publish, reported))

    def _publish(self, reported: ReportedTransfer) -> None:
        transfer = self._stage.transfer
        if MARKER in transfer.listing(self._to):
            marker = marker_of(transfer, self._to, self._job)
            if not marker:
                raise TransferFailed(f"another job published at {self._to} meanwhile, and its result is kept", True)
        else:
            marker = self._copy(transfer, reported)
        delete(transfer, self._note)
        reported.end("done", marker.get("files", 0), marker.get("bytes", 0), note=_said(marker))

    def _copy(self, transfer: Transfer, reported: ReportedTransfer) -> dict[str, Any]:
        settings = self._stage.settings
        better = settings.metric_better if settings.metric_pattern else ""
        remote = RemoteCheckpoints(self._location, self._look_for, 0, better)
        remote.read_in(transfer)
        chosen = remote.chosen(self._is_best)
        if chosen is None:
            raise TransferFailed(f"no complete checkpoint lies at {self._location}", True)
        files = _files_of(chosen, remote.folder)
        clean_up(transfer, self._waiting, self._to, self._job, self._own)
        self._begin(transfer, [*files.names, *files.written])
        transfer.copy(files.folder, self._to, reported.progress, only=files.names)
        for name, content in files.written.items():
            transfer.write(join(self._to, name), content)
        there = transfer.listing(self._to)
        sizes = [there[name].size for name in (*files.names, *files.written) if name in there]
        if len(sizes) < len(files.names) + len(files.written):
            raise TransferFailed(f"not all of {chosen.held.name} arrived at {self._to}")
        metric = {"pattern": settings.metric_pattern, "better": better, "value": chosen.value}
        marker = {
            "job": self._job,
            "attempt": settings.attempt,
            "run": self._stage.run,
            "published_at": utc(),
            "checkpoint": join(remote.folder, chosen.held.name.rstrip(".")).rstrip("/"),
            "step": chosen.held.step if chosen.held.step >= 0 else None,
            "chosen": BEST if chosen.is_best else "latest",
            "wanted": BEST if self._is_best else "latest",
            "metric": metric if better else None,
            "files": len(sizes),
            "bytes": sum(sizes),
        }
        transfer.write(f"{self._to}/{MARKER}", json.dumps(marker).encode())
        return marker

    def _begin(self, transfer: Transfer, names: list[str]) -> None:
        """Notes the files, and removes those of another checkpoint that this run began to copy before."""
        before: list[str] = []
        if f"{self._own}.json" in transfer.listing(self._waiting):
            with contextlib.suppress(ValueError, NothingThere):
                before = json.loads(transfer.read(self._note, 0, 1 << 30))
        if stale := sorted(set(before) - set(names)):
            delete(transfer, self._to, stale)
        transfer.write(self._note, json.dumps(names).encode())


def _files_of(chosen: Chosen, location: str) -> _Files:
    """Returns the files of a checkpoint that is a folder as they lie in it, and otherwise as they lie at the location.

    A framework that finds its newest checkpoint by a file next to it gets that file, and the folder. A file with the
    name of our own marker is left out: it would announce a result of which half is there.
    """
    held = chosen.held
    slot = slot_of(held.name)
    name = held.name[len(slot) :]
    folder = (
        f"{slot}{name}/" if not held.pointer and all(path.startswith(f"{slot}{name}/") for path in held.paths) else slot
    )
    names = sorted({path[len(folder) :] for path in held.paths} - {MARKER})
    return _Files(join(location, folder.rstrip("/")).rstrip("/"), names, held.pointer)


def _said(marker: Mapping[str, Any]) -> str:
    """Returns a few words about what was published."""
    step = "a checkpoint of an unknown step" if marker.get("step") is None else f"step {marker['step']:,}"
    if marker.get("chosen") == BEST:
        return f"{step}, the best: its metric is {marker['metric']['value']!r}"
    unknown = ": no value of the metric is known of a checkpoint" if marker.get("wanted") == BEST else ""
    return f"{step}, the newest{unknown}"


def check_result(stage: Stage) -> None:
    """Checks the place of the result before the command runs for hours. Raises TransferFailed."""
    if stage.settings.publish:
        ResultPublisher(stage).prepare()


def publish_result(stage: Stage, ended: dict[str, Any]) -> None:
    """The exit becomes `not_published` where that fails: the command itself succeeded."""
    if not stage.settings.publish or ended.get("reason") == "not_published":
        return
    try:
        with stage.phases.phase("publishing"):
            ResultPublisher(stage).publish()
    except Unwanted:
        raise
    except Exception as problem:  # whatever it is, nothing was published
        repeats = isinstance(problem, TransferFailed) and problem.repeats
        ended.update(reason="not_published", error=str(problem), repeats=repeats)
