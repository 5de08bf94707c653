"""Takes an input from a data stage, a bucket near the VMs, and puts into it what its source alone has.

A stage is `ADDRESS/DIGEST/`: `files/` holds the objects, `notes/SHA256.json` the MD5s that the source does not know,
and `manifest.json`, written last, says that all are there. The digest names the source and its listing, which each VM
makes with its own credentials: a job that may not read the source does not know the digest, and a source that changed
has another one. An object is used only where it has the size that the source lists, and its MD5: the source's own, or
that of a note whose SHA-256 the guard has from the VM that wrote it. So nothing is trusted because it lies there.

The guard lets one VM at a time fetch from the source. What that VM is about to fetch it reports first, so that
no byte is missing where transfer is counted; the others take each object once it is staged.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

from costguard_vm.agent.calls import HttpCalls
from costguard_vm.agent.failures import NothingThere, TransferFailed, Trouble, patiently
from costguard_vm.agent.files import read_json, say, write_json
from costguard_vm.agent.settings import Unwanted

from .phases import ReportedTransfer
from .preparation import Stage
from .transfer import HashedFile, Progress, TransferProgress

MANIFEST = "manifest.json"
MOST_FILES = 500  # in one batch
PROBES = 3  # objects of the source whose first byte is read, to prove that this job may
ASK_TRIES = 3
RENEW_S = 20.0  # between signs of life to the guard while a batch moves
TAKES = 3  # failed downloads from the stage, after which its objects count as missing
MOST_NOTE = 1 << 28  # bytes
LOOK_S = 0.2
NEAR_S = 1.0  # S3 gives an object's time to the second in one answer, to the thousandth in another


class SourceChanged(TransferFailed):
    """An object is another one than the source's listing showed: it is listed again."""


class StagedSource(NamedTuple):
    """A job's source, the folder `uri` of it with the files wanted, and the folder of this VM that they come to."""

    named: str
    uri: str
    folder: str
    files: Mapping[str, HashedFile]
    endpoint: str


class StageWord(NamedTuple):
    """The guard's answer: whether the stage may be used, and this VM fetch from the source; the note to trust."""

    use: bool
    fetch: bool
    note: str = ""


def digest_of(address: str, source: StagedSource) -> str:
    """Returns what names a stage: SHA-256 of its place, its source and each file's name, size, time and MD5."""
    rows = [[name, file.size, file.modified_at.isoformat(), file.md5] for name, file in sorted(source.files.items())]
    text = json.dumps([address, source.endpoint, source.uri, rows], separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class StagedInput:
    """Brings one input to this VM. `note` is a file of the attempt's that outlives the agent."""

    def __init__(self, stage: Stage, address: str, source: StagedSource, note: str, reported: ReportedTransfer) -> None:
        self._stage, self._settings, self._source, self._reported = stage, stage.settings, source, reported
        self._address, self._note_file = address.rstrip("/"), note
        self.digest = digest_of(self._address, source)
        self._place = f"{self._address}/{self.digest}"
        before = read_json(note)
        self._fetched = int(before.get("fetched", 0)) if before.get("digest") == self.digest else 0
        self._noted: dict[str, str] = {}
        self._note = self._trusted = ""
        self._here: set[str] = set()  # the names of files that are on this VM
        self._refused: set[str] = set()  # of objects that are not taken from the stage any more
        self._stored: set[str] = set()  # of those that this VM has put there
        self._staged: set[str] = set()  # of those that were seen there and are the source's
        self._failed_takes, self._trouble = 0, ""
        self._asked_at = float("-inf")
        self._lock, self._over = threading.Lock(), threading.Event()

    def fetch(self) -> None:
        """Returns once all files are on this VM. Raises SourceChanged, TransferFailed, NotStarted or Unwanted."""
        self._prove()
        self._here = {name for name, file in self._source.files.items() if self._is_here(name, file)}
        moved_at = time.monotonic()
        while True:
            word = self._ask(wants=True)
            missing = [name for name in self._source.files if name not in self._here]
            self._staged = self._usable(word) if word.use else set()
            ready = [name for name in missing if name in self._staged]
            if ready:
                self._take(ready)
                moved_at = time.monotonic()
                continue
            unstaged = [name for name in self._source.files if name not in self._staged and name not in self._stored]
            is_filling = word.use and word.fetch and not self._trouble
            if is_filling and unstaged:
                self._fill(unstaged)
                moved_at = time.monotonic()
            elif not missing:
                break
            elif not word.use or self._trouble or time.monotonic() - moved_at >= self._settings.stage_wait_s:
                self._fetch_all(missing)
            else:
                self._stage.wait(self._settings.stage_poll_s)
        self._finish()

    def _prove(self) -> None:
        """Reads a byte of some objects: the right to list a source is not the right to read it."""
        names = sorted(name for name, file in self._source.files.items() if file.size)
        for name in sorted({names[round(n * (len(names) - 1) / (PROBES - 1))] for n in range(PROBES)} if names else ()):
            self._stage.transfer.read(f"{self._source.uri}/{name}", 0, 1)

    def _is_here(self, name: str, file: HashedFile) -> bool:
        try:
            status = os.stat(os.path.join(self._source.folder, name))
        except OSError:
            return False
        return status.st_size == file.size and abs(status.st_mtime - file.modified_at.timestamp()) <= NEAR_S

    def _usable(self, word: StageWord) -> set[str]:
        """The names whose objects in the stage are those of the source. Empty where the stage cannot be read."""
        try:
            there = self._stage.transfer.hashed_listing(f"{self._place}/files")
            self._trust(word.note)
        except TransferFailed as problem:
            self._give_up(f"the data stage {self._address} cannot be read: {problem}")
            return set()
        return {name for name in there if name not in self._refused and self._is_same(name, there[name])}

    def _is_same(self, name: str, there: HashedFile) -> bool:
        file = self._source.files.get(name)
        if file is None or there.size != file.size:
            return False
        md5 = file.md5 or self._noted.get(name, "")
        return bool(md5) and there.md5 == md5

    def _trust(self, note: str) -> None:
        """Reads the note that the guard vouches for; one whose contents have another SHA-256 tells nothing."""
        if not note or note in (self._trusted, self._note):
            return
        try:
            content = self._stage.transfer.read(f"{self._place}/notes/{note}.json", 0, MOST_NOTE)
            document = json.loads(content) if hashlib.sha256(content).hexdigest() == note else None
        except (NothingThere, ValueError):
            document = None
        if not isinstance(document, dict):
            say(f"a note of the data stage is not what the guard knows, and is not used: {self._place}/notes/{note}")
            return
        self._trusted = note
        self._noted = {**{name: md5 for name, md5 in document.items() if isinstance(md5, str)}, **self._noted}

    def _take(self, names: Sequence[str]) -> None:
        """Downloads from the stage. What is not whole there is never tried again."""
        files, transfer = f"{self._place}/files", self._stage.transfer
        try:
            transfer.download_named(files, self._source.folder, names, self._progress())
            after = transfer.hashed_listing(files)
        except TransferFailed as problem:
            say(f"the data stage gives not all that it should: {problem}")
            self._failed_takes += 1
            if problem.repeats or self._failed_takes >= TAKES:
                self._refused.update(names)
            return
        for name in names:
            path, file = os.path.join(self._source.folder, name), self._source.files[name]
            if name in after and self._is_same(name, after[name]) and os.path.getsize(path) == file.size:
                os.utime(path, (file.modified_at.timestamp(),) * 2)
                self._here.add(name)
            else:
                self._refused.add(name)
                os.unlink(path)

    def _fill(self, names: Sequence[str]) -> None:
        """Fetches from the source while the guard lets it, and stages each batch while the next one comes."""
        storing: Optional[threading.Thread] = None  # noqa: UP045  evaluated by Python 3.8
        try:
            for batch in self._batches(names):
                if not self._intend(batch):
                    break
                self._download(batch)
                self._wait_for(storing)
                if self._trouble:
                    break
                storing = threading.Thread(target=self._store, args=(batch,), daemon=True)
                storing.start()
            self._wait_for(storing)
        finally:
            self._over.set()
            if storing is not None:
                storing.join()
            self._over.clear()

    def _fetch_all(self, names: Sequence[str]) -> None:
        """Fetches from the source without staging: the stage may not be used, or nothing came into it for long."""
        for batch in self._batches(names):
            self._intend(batch)
            self._download(batch)

    def _batches(self, names: Sequence[str]) -> Iterator[List[str]]:  # noqa: UP006  evaluated by Python 3.8
        batch: list[str] = []
        size = 0
        for name in sorted(names):
            of_file = self._source.files[name].size
            if batch and (size + of_file > self._settings.stage_batch_bytes or len(batch) >= MOST_FILES):
                yield batch
                batch, size = [], 0
            batch.append(name)
            size += of_file
        if batch:
            yield batch

    def _intend(self, batch: Sequence[str]) -> bool:
        """Counts what is about to be fetched, here and at the guard. Returns whether the guard still lets it."""
        wanted = sum(self._source.files[name].size for name in batch if name not in self._here)
        self._fetched += wanted
        write_json(self._note_file, {"digest": self.digest, "fetched": self._fetched})
        self._reported.from_source(self._fetched)
        return self._ask(wants=True).fetch

    def _download(self, batch: Sequence[str]) -> None:
        """Raises SourceChanged where an object is not the one that was listed: it is not staged under its name."""
        missing = [name for name in batch if name not in self._here]
        if not missing:
            return
        folder, transfer = self._source.folder, self._stage.transfer
        transfer.download_named(self._source.uri, folder, missing, self._progress())
        for name in missing:
            if not self._is_here(name, self._source.files[name]):
                raise SourceChanged(f"{self._source.uri}/{name} changed while it was downloaded")
            self._here.add(name)

    def _wait_for(self, storing: Optional[threading.Thread]) -> None:  # noqa: UP045  evaluated by Python 3.8
        while storing is not None and storing.is_alive():
            self._stage.wait(LOOK_S)
            self._renew()

    def _store(self, batch: Sequence[str]) -> None:
        """Puts a batch into the stage; where that fails, the job goes on without it."""

        def wait(seconds: float) -> None:
            if self._over.is_set():
                raise Unwanted("the download ended")
            self._stage.wait(seconds)

        transfer, files = self._stage.transfer.waiting(wait), f"{self._place}/files"
        try:
            transfer.upload_named(self._source.folder, files, batch)
            unknown = [name for name in batch if not self._source.files[name].md5]
            there = transfer.hashed_listing(files, unknown)
            new = {name: there[name].md5 for name in unknown if there[name].size == self._source.files[name].size}
            if new:
                self._noted = {**self._noted, **new}
                content = json.dumps(self._noted, sort_keys=True).encode()
                note = hashlib.sha256(content).hexdigest()
                transfer.write(f"{self._place}/notes/{note}.json", content)
                self._note = note
            self._stored.update(batch)
            self._refused.difference_update(batch)
            self._staged = self._staged | {name for name in batch if self._source.files[name].md5 or name in new}
            self._ask(wants=True)
        except Unwanted:
            pass
        except (TransferFailed, OSError, KeyError) as problem:
            self._give_up(f"nothing more is put into the data stage {self._address}: {problem}")

    def _finish(self) -> None:
        """Says that all is there; the manifest is the last object of a stage."""
        is_whole = len(self._staged) == len(self._source.files) and not self._trouble
        transfer = self._stage.transfer
        if is_whole:
            size = sum(file.size for file in self._source.files.values())
            manifest = {"source": self._source.uri, "files": len(self._source.files), "bytes": size}
            try:
                if MANIFEST not in transfer.hashed_listing(self._place, [MANIFEST]):
                    transfer.write(f"{self._place}/{MANIFEST}", json.dumps(manifest).encode())
            except TransferFailed as problem:
                self._give_up(f"the data stage {self._address} has no manifest: {problem}")
                is_whole = False
        self._ask(wants=False, is_whole=is_whole)
        by_size = sum(not file.md5 for file in self._source.files.values())
        if by_size:
            say(f"{self._source.uri} has no MD5 of {by_size} files: from there they are verified by their size alone")

    def _give_up(self, problem: str) -> None:
        """The stage is a saving, not a need: the job goes on without it."""
        self._trouble = problem
        say(problem)
        self._reported.trouble(problem)

    def _ask(self, *, wants: bool, is_whole: bool = False, tries: int = ASK_TRIES) -> StageWord:
        """Reports to the guard and returns its answer. Without one, only objects with the source's MD5 are used."""
        body = {
            "digest": self.digest,
            "address": self._address,
            "source": self._source.named,
            "bytes": sum(file.size for file in self._source.files.values()),
            "files": len(self._source.files),
            "from_source": self._fetched,
            "staged": sum(self._source.files[name].size for name in self._staged),
            "note": self._note,
            "wants": wants and not self._trouble,
            "is_whole": is_whole,
            "error": self._trouble,
        }
        with self._lock:
            self._asked_at = time.monotonic()
            try:
                answer = patiently(lambda: self._call(body), self._stage.wait, tries, self._settings.retry_s)
            except Trouble as trouble:
                say(f"the guard does not say who fetches {self._source.uri}: {trouble}")
                return StageWord(use=trouble.may_pass, fetch=False)
        return StageWord(answer.get("use") is True, answer.get("fetch") is True, str(answer.get("note") or ""))

    def _call(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = self._settings
        url = f"{settings.guard.rstrip('/')}/api/v1/attempts/{settings.attempt}/stage"
        headers = {"Authorization": f"Bearer {self._stage.token}", "Content-Type": "application/json"}
        answer, _ = HttpCalls(settings.guard_ca)(url, headers, json.dumps(body).encode())
        try:
            document = json.loads(answer)
        except ValueError:
            raise Trouble(f"{url} answered with no JSON") from None
        return document if isinstance(document, dict) else {}

    def _renew(self) -> None:
        if time.monotonic() - self._asked_at >= RENEW_S:
            self._ask(wants=True, tries=1)

    def _progress(self) -> Progress:
        """Adds what is here already to the figures of one transfer, and keeps the guard's word alive meanwhile."""
        files = self._source.files
        here = [files[name].size for name in self._here]
        size = sum(here)
        total = sum(file.size for file in files.values())

        def note(so_far: TransferProgress) -> None:
            done, count = size + so_far.bytes_done, len(here) + so_far.files_done
            self._reported.progress(TransferProgress(done, total, count, len(files), so_far.bytes_per_s))
            self._renew()

        return note
