"""Publishes what a command left, once it has succeeded: all of it or nothing.

An output is uploaded to a place of this run first, `DESTINATION/.costguard/outputs/ATTEMPT.RUN/`. Once all outputs are
there, each is copied to its destination on the provider's own servers, and `_SUCCESS` is written last (in a shared
folder, files are renamed instead). A folder without `_SUCCESS` is not published. What an attempt left that ended early
is removed by the next one of its job: the guard starts one only when nothing of the one before can write any more.

A single file needs no marker: an object appears as a whole or not at all. It waits in a folder next to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from costguard_vm.agent.checkpoints import on_the_vm
from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.agent.files import say, utc
from costguard_vm.agent.settings import Unwanted
from costguard_vm.model.checkpoint import names_a_file

from .phases import Phases, ReportedTransfer
from .preparation import Stage
from .transfer import Transfer

MARKER = "_SUCCESS"  # that of Hadoop's writers, which readers of such folders know
WAITING = ".costguard/outputs"


class Output(NamedTuple):
    """`local` is where it lies on the VM, and `path` is that as the command sees it."""

    path: str
    local: str
    destination: str

    @property
    def is_file(self) -> bool:
        return os.path.isfile(self.local)

    @property
    def waiting(self) -> str:
        """The folder in which outputs wait."""
        folder = self.destination.rpartition("/")[0] if self.is_file else self.destination
        return f"{folder}/{WAITING}"


class Publisher:
    """The outputs of one run. `own` names this run among all those of its job."""

    def __init__(self, stage: Stage) -> None:
        settings = stage.settings
        self._stage, self._job, self._own = stage, settings.job, f"{settings.attempt}.{stage.run}"
        self._outputs = [
            Output(path, on_the_vm(settings, path, stage.volumes).rstrip("/"), destination.rstrip("/"))
            for destination, path in settings.outputs.items()
        ]

    def prepare(self) -> None:
        """Removes what earlier attempts left, and proves that this one may write. Raises TransferFailed, OSError."""
        for output in self._outputs:
            self._make_folder(output)
            if not output.destination.startswith("file:"):
                probe = f"{output.waiting}/{self._own}/probe"
                self._stage.transfer.write(probe, b"may this attempt write here?\n")
                self._stage.transfer.delete(f"{output.waiting}/{self._own}")
            self._clean_up(output)

    def upload_all(self, phases: Phases) -> dict[str, ReportedTransfer]:
        """Brings every output to where it waits. Raises TransferFailed."""
        transfers = {}
        for output in self._outputs:
            reported = transfers[output.destination] = phases.transfer("output", output.path, output.destination)
            if not names_in(output.local):
                text = f"there is nothing at {output.path}"
                reported.fail(text)
                raise TransferFailed(text, True)
            with_patience(self._stage, reported, partial(self._upload, output, reported))
        return transfers

    def publish_all(self, transfers: dict[str, ReportedTransfer]) -> None:
        """All of it waits: from here to the last marker nothing is uploaded any more. Raises TransferFailed."""
        for output in self._outputs:
            reported = transfers[output.destination]
            with_patience(self._stage, reported, partial(self._publish, output))
            reported.end("done", *amount(output.local))

    def forget(self) -> None:
        """Removes what waits of this run: it will not be published."""
        for output in self._outputs:
            delete(self._stage.transfer, f"{output.waiting}/{self._own}")

    def _upload(self, output: Output, reported: ReportedTransfer) -> None:
        folder = f"{output.waiting}/{self._own}"
        if output.is_file:
            name = output.destination.rpartition("/")[2]
            self._stage.transfer.upload(output.local, f"{folder}/{name}", reported.progress)
        else:
            self._stage.transfer.upload(output.local, folder, reported.progress, names_in(output.local))

    def _publish(self, output: Output) -> None:
        transfer, destination, folder = self._stage.transfer, output.destination, f"{output.waiting}/{self._own}"
        if output.is_file:
            name = destination.rpartition("/")[2]
            copy(transfer, f"{folder}/{name}", destination, None)
            delete(transfer, f"{folder}/{name}")
            return
        if MARKER in transfer.listing(destination):
            if not marker_of(transfer, destination, self._job):
                raise TransferFailed(f"another job published at {destination} meanwhile, and its output is kept", True)
        else:
            names = names_in(output.local)
            self._clean_up(output)
            # For a later attempt, which removes what this one may leave half done.
            transfer.write(f"{output.waiting}/{self._own}.json", json.dumps(names).encode())
            copy(transfer, folder, destination, names)
            transfer.write(f"{destination}/{MARKER}", self._marker(output))
        delete(transfer, folder)
        delete(transfer, f"{output.waiting}/{self._own}.json")

    def _marker(self, output: Output) -> bytes:
        files, size = amount(output.local)
        named = {"job": self._job, "attempt": self._stage.settings.attempt, "run": self._stage.run}
        return json.dumps({**named, "published_at": utc(), "files": files, "bytes": size}).encode()

    def _clean_up(self, output: Output) -> None:
        clean_up(self._stage.transfer, output.waiting, output.destination, self._job, self._own)

    def _make_folder(self, output: Output) -> None:
        """Makes the folder that the command writes into.

        In a container it is mounted, and the container's user need not be root.
        """
        is_folder = self._stage.settings.image and not names_a_file(output.path)
        folder = output.local if is_folder else os.path.dirname(output.local)
        if not os.path.isdir(folder):
            os.makedirs(folder)
            if self._stage.settings.image:
                os.chmod(folder, 0o1777)  # noqa: S103


def check_outputs(stage: Stage) -> None:
    """Checks outputs before any data is downloaded: where a destination cannot be written to, all work would be
    vain.
    """
    if stage.settings.outputs:
        Publisher(stage).prepare()


def publish_outputs(stage: Stage, ended: dict[str, Any]) -> None:
    """The exit becomes `not_published` where that fails: the command itself succeeded."""
    if not stage.settings.outputs:
        return
    publisher = Publisher(stage)
    try:
        with stage.phases.phase("publishing"):
            publisher.publish_all(publisher.upload_all(stage.phases))
    except Unwanted:
        raise
    except Exception as problem:  # whatever it is, nothing was published
        repeats = isinstance(problem, TransferFailed) and problem.repeats
        ended.update(reason="not_published", error=str(problem), repeats=repeats)
        try:
            publisher.forget()
        except Exception as left:
            say(f"what waited to be published is left: {left}")


def clean_up(transfer: Transfer, waiting: str, destination: str, job: str, own: str) -> None:
    """Removes leftovers of earlier runs of this job: half of an output without its marker, and waiting files.

    `own` is the present run, whose files stay. Raises TransferFailed.
    """
    below = transfer.listing(waiting)
    left = {name for name in below if name.startswith(f"cg-{job}-") and job}
    others = {_run_of(name) for name in left} - {own}
    torn: set[str] = set()
    for other in others:
        if f"{other}.json" in below:
            with contextlib.suppress(ValueError, NothingThere):
                torn.update(json.loads(transfer.read(f"{waiting}/{other}.json", 0, 1 << 30)))
    if torn and MARKER not in transfer.listing(destination):
        say(f"removing {len(torn)} files of an output that was published in part at {destination}")
        delete(transfer, destination, sorted(torn))
    for other in sorted(others):
        delete(transfer, f"{waiting}/{other}")
        delete(transfer, f"{waiting}/{other}.json")


def marker_of(transfer: Transfer, destination: str, job: str) -> dict[str, Any]:
    """Returns the marker of a run of this job, which may have ended before it could report that it has published.

    Empty where there is none, or that of another job.
    """
    try:
        marker = json.loads(transfer.read(f"{destination}/{MARKER}", 0, 1 << 16))
    except (ValueError, NothingThere):
        return {}
    return marker if isinstance(marker, dict) and job and marker.get("job") == job else {}


def with_patience(stage: Stage, reported: ReportedTransfer, work: Callable[[], None]) -> None:
    """Gives trouble that may pass time to, since hours of work may depend on it. Raises TransferFailed."""
    settings = stage.settings
    until, pause = time.monotonic() + settings.publish_wait_s, settings.retry_s
    while True:
        try:
            work()
            return
        except TransferFailed as problem:
            if problem.repeats or time.monotonic() >= until:
                reported.fail(str(problem))
                raise
            reported.trouble(str(problem))
            say(f"not published yet: {problem}")
            stage.wait(pause)
            pause = min(2 * pause, settings.retry_most_s)


def names_in(local: str) -> list[str]:
    """The files of an output by their relative paths, or its own name; a marker of the command's is none of them.

    Links are followed, but not into a folder that leads here.
    """
    if os.path.isfile(local):
        return [os.path.basename(local)]
    names: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(local),))]
    while waiting:
        folder, above = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(local, folder)) as entries:
            for entry in entries:
                name = os.path.join(folder, entry.name)
                real = os.path.realpath(entry.path)
                if entry.is_dir():
                    if real not in above:
                        waiting.append((name, (*above, real)))
                elif entry.is_file() and name != MARKER:
                    names.append(name)
    return sorted(names)


def amount(local: str) -> tuple[int, int]:
    """Files and bytes."""
    names = names_in(local)
    folder = os.path.dirname(local) if os.path.isfile(local) else local
    return len(names), sum(os.path.getsize(os.path.join(folder, name)) for name in names)


def copy(transfer: Transfer, waiting: str, destination: str, names: Sequence[str] | None) -> None:
    """Copies to the destination. Within a provider nothing passes through this VM.

    In a shared folder each file is renamed.
    """
    if not destination.startswith("file:"):
        if names is None and not transfer.listing(waiting) and transfer.listing(destination):
            return  # an earlier try copied it
        transfer.copy(waiting, destination, only=names)
        return
    source, target = _path(waiting), _path(destination)
    for name in names or [""]:
        here, there = (os.path.join(folder, name) if name else folder for folder in (source, target))
        if not os.path.exists(here) and os.path.exists(there):
            continue  # an earlier try renamed it
        os.makedirs(os.path.dirname(there), exist_ok=True)
        os.replace(here, there)


def delete(transfer: Transfer, place: str, names: Sequence[str] | None = None) -> None:
    """A folder with all that is in it, a file, or only some files of a folder. What is not there is no failure."""
    if not place.startswith("file:"):
        transfer.delete(place, names)
        return
    for path in [_path(place)] if names is None else [os.path.join(_path(place), name) for name in names]:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _run_of(name: str) -> str:
    """`cg-JOB-2.1` of `cg-JOB-2.1/weights.bin` and of `cg-JOB-2.1.json`."""
    first = name.split("/")[0]
    return first[: -len(".json")] if first.endswith(".json") and "/" not in name else first


def _path(uri: str) -> str:
    return unquote(uri.partition("://")[2])
