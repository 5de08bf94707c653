"""Brings a job's data to the VM before its command starts, and not again after a restart of the same VM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from costguard_vm.agent.checkpoints import on_the_vm
from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.files import read_json, say, write_json
from costguard_vm.agent.settings import NotStarted, Unwanted
from costguard_vm.model.checkpoint import StoredFile

from .phases import ReportedTransfer
from .preparation import Stage
from .staging import SourceChanged, StagedInput, StagedSource
from .transfer import leads_out

ROOM = 64 << 20  # bytes that a download leaves free
LISTINGS = 3  # of a source that changes while it is downloaded


def fetch_inputs(stage: Stage) -> None:
    """Each by itself, in its order. Raises NotStarted or TransferFailed."""
    with stage.phases.phase("downloading"):
        for number, (path, source) in enumerate(stage.settings.inputs.items()):
            reported = stage.phases.transfer("input", source, path)
            try:
                _fetch(stage, source, path, os.path.join(stage.folder, "inputs", f"{number}.json"), reported)
            except (NotStarted, TransferFailed) as problem:
                reported.fail(str(problem))
                raise
            except Unwanted as unwanted:
                reported.fail(f"it was ended: {unwanted}")
                raise


def _fetch(stage: Stage, source: str, path: str, note: str, reported: ReportedTransfer) -> None:
    noted = read_json(note)
    if noted.get("source") == source and _is_there(noted):
        files: Mapping[str, list[int]] = noted["files"]
        reported.end("skipped", len(files), sum(size for size, _ in files.values()))
        return
    target = on_the_vm(stage.settings, path, stage.volumes)
    listed: Mapping[str, StoredFile] = stage.transfer.listing(source)
    if not listed:
        raise TransferFailed(f"there is nothing at {source}: check its bucket and its path", True)
    if wrong := next(filter(leads_out, listed), None):
        raise TransferFailed(f"{source} has an object {wrong!r}, whose name leads out of its folder: rename it", True)
    if path.endswith("/") and _is_object(source, listed):
        target = os.path.join(target, source.rpartition("/")[2])
    target = target.rstrip("/")
    _check_room(source, target, listed)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if path in stage.settings.stages and not any("\n" in name or "\r" in name for name in listed):
        listed = _fetch_staged(stage, source, target, path, note, reported)
    else:
        stage.transfer.download(source, target, reported.progress)
    files = _files(target, listed)
    os.sync()  # before the note: after a power cut a file may have its size and not its contents
    os.makedirs(os.path.dirname(note), exist_ok=True)
    write_json(note, {"source": source, "target": target, "files": files})
    reported.end("done", len(files), sum(size for size, _ in files.values()))


def _fetch_staged(
    stage: Stage, source: str, target: str, path: str, note: str, reported: ReportedTransfer
) -> Mapping[str, StoredFile]:
    """Takes an input from the data stage. Returns the files by the listing that it was fetched by."""
    for _ in range(LISTINGS):
        chosen = _staged_source(stage, source, target)
        try:
            StagedInput(stage, stage.settings.stages[path], chosen, f"{note}.stage", reported).fetch()
        except SourceChanged as changed:
            say(f"{changed}: the source is listed again")
            continue
        if chosen.folder != target:
            os.replace(os.path.join(chosen.folder, *chosen.files), target)
            shutil.rmtree(chosen.folder)
        return {name: StoredFile(name, file.size, "", file.modified_at) for name, file in chosen.files.items()}
    raise TransferFailed(f"{source} changed while it was downloaded, {LISTINGS} times: launch the job once it is still")


def _staged_source(stage: Stage, source: str, target: str) -> StagedSource:
    """Lists a source with its own MD5s. A single object is a folder's only file, in a folder next to its target."""
    endpoint = stage.transfer.endpoint(source)
    parent, _, name = source.rpartition("/")
    alone = stage.transfer.hashed_listing(parent, [name]) if parent.count("/") > 1 else {}
    if alone:
        return StagedSource(source, parent, f"{target}.costguard-input", alone, endpoint)
    return StagedSource(source, source.rstrip("/"), target, stage.transfer.hashed_listing(source), endpoint)


def _is_there(noted: Mapping[str, Any]) -> bool:
    """Says whether all downloaded files are still as they were, by size and time of change."""
    target = noted["target"]
    return all(_stamp(_place(target, name)) == stamp for name, stamp in noted["files"].items())


def _files(target: str, listed: Mapping[str, StoredFile]) -> dict[str, list[int]]:
    """Size and time of change of each file; of a single object under the empty name. Raises TransferFailed."""
    names = [""] if os.path.isfile(target) else list(listed)
    stamps = {name: _stamp(_place(target, name)) for name in names}
    missing = [name for name, stamp in stamps.items() if stamp is None]
    if missing:
        raise TransferFailed(f"{_place(target, missing[0])} is not there after its download")
    return {name: stamp for name, stamp in stamps.items() if stamp is not None}


def _place(target: str, name: str) -> str:
    return os.path.join(target, name) if name else target


def _stamp(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _is_object(source: str, listed: Mapping[str, StoredFile]) -> bool:
    return list(listed) == [source.rpartition("/")[2]]


def _check_room(source: str, target: str, listed: Mapping[str, StoredFile]) -> None:
    """A full disk is known before the download: the rest of the VM needs room too. Raises NotStarted."""
    place = target
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    size = sum(file.size for file in listed.values())
    there = sum(
        min(file.size, os.path.getsize(_place(target, name)))
        for name, file in listed.items()
        if os.path.isfile(_place(target, name))
    )
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        say(f"it is not known how much room {place} has: {error}")
        return
    if size - there > free - ROOM:
        raise NotStarted(
            f"{source} has {_gib(size)} and the disk at {place} has {_gib(free)} free: take a larger one (--disk)", True
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
