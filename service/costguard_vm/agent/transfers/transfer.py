"""Copies files between this VM and buckets, with rclone as the tool.

Places are URIs: `s3://bucket/key`, `gs://bucket/key`, `file:///folder`. Every file is verified after its transfer: by
size, and by MD5 where both sides know one (rclone.org/docs/#checksum; an S3 object that another tool uploaded in parts
has none). What is already there, with the same size and time or content, is not transferred again.
"""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple, Optional, Sequence
from urllib.parse import unquote

from costguard_vm.agent.calls import Metadata
from costguard_vm.agent.failures import Failures, NothingThere, TransferFailed, failure
from costguard_vm.agent.processes import Gentle, run
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.model.checkpoint import StoredFile

from .credentials import AwsIdentity, remotes, variables

TRIES = 4
FEW_NAMES = 50  # so many are looked up one by one rather than by listing the target
LOOKUP = "--no-traverse"
# Measured with six files of 80 MiB, S3: 18 MB of its own memory up and 16 down; 73 and 71 resident with its program.
# A listing of an endpoint that takes no connections ends after 66 s: twelve tries to connect.
FLAGS = (
    "--retries=1", "--low-level-retries=2", "--contimeout=5s", "--timeout=60s", "--transfers=4", "--checkers=8",
    "--buffer-size=0", "--max-buffer-memory=20Mi", "--multi-thread-streams=4", "--multi-thread-cutoff=64Mi",
    "--use-json-log", "--log-level=NOTICE", "--stats=0", "--stats-log-level=NOTICE",
)  # fmt: skip
# The time of the last change as the bucket has it, which a listing shows; rclone's own note of a file's time would
# need a request for each object (rclone.org/docs/#use-server-modtime).
BY_SERVER = "--use-server-modtime"
# Of a path no part is one of these; rclone shows dots that an object's name has as full-width ones
# (rclone.org/overview/#encoding), and writes what has them to other places than it says, or not at all.
_NO_PARTS = frozenset({"", ".", "..", "\uff0e", "\uff0e\uff0e"})


class HashedFile(NamedTuple):
    """A file's size in bytes, its server's time of change, and its MD5 in hexadecimal; "" where the server has none."""

    size: int
    modified_at: datetime
    md5: str


class TransferProgress(NamedTuple):
    """The progress of a transfer. Totals grow while rclone still compares; the speed is None before it is known."""

    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    bytes_per_s: Optional[float] = None  # noqa: UP045  evaluated by Python 3.8


Progress = Callable[[TransferProgress], None]
Wait = Callable[[float], Any]
Only = Optional[Sequence[str]]


def _no_progress(_: TransferProgress) -> None:
    pass


class Transfer:
    """`environment` holds the command's variables, with the credentials in it. `tool` gives the path of rclone.

    `wait` is called about ten times a second, and raises where the transfer is not wanted any more. `folder` is the
    attempt's own. Safe for several threads; with a limit of the bandwidth one transfer runs after the other.
    """

    def __init__(
        self,
        settings: AttemptSettings,
        environment: Mapping[str, str],
        folder: str,
        wait: Wait,
        metadata: Metadata,
        tool: Callable[[Wait], str],
    ) -> None:
        self._settings, self._wait, self._tool = settings, wait, tool
        self._identity = AwsIdentity(settings.aws_role, folder, metadata) if settings.aws_role else None
        chosen = variables(os.environ, environment)
        self._environment = {**chosen, **remotes(chosen, self._identity, metadata)}
        self._limited = threading.Lock()
        self._is_gentle: Gentle = False

    def waiting(self, wait: Wait, is_gentle: Gentle = False) -> Transfer:
        """The same with another `wait`; `is_gentle` is for next to a running command, which needs the CPU more. A
        function says for how long it does.
        """
        other = copy.copy(self)
        other._wait, other._is_gentle = wait, is_gentle
        return other

    def endpoint(self, uri: str) -> str:
        """Returns the address of the servers that a place is read from; "": the cloud's own."""
        return self._environment.get(f"RCLONE_CONFIG_{uri.partition('://')[0].upper()}_ENDPOINT", "")

    def listing(self, uri: str) -> dict[str, StoredFile]:
        """The files below a place by their relative paths; of a single file its name. Empty where nothing is there."""
        return self._listing(uri, None)

    def _listing(self, uri: str, only: Only) -> dict[str, StoredFile]:
        files = {}
        for entry in self._entries(uri, only):
            tag = f"{entry['Size']}-{entry['ModTime']}"
            files[entry["Path"]] = StoredFile(entry["Path"], entry["Size"], tag, moment(entry["ModTime"]))
        return files

    def hashed_listing(self, uri: str, only: Only = None) -> dict[str, HashedFile]:
        """The files below a place, or those of these names that are there, with their MD5 as the server knows it.

        S3 knows that of an object which was uploaded in one part: its ETag (docs.aws.amazon.com/AmazonS3/latest/API,
        API_Object.html). Of each other one rclone asks for the note of its uploader, a request an object.
        """
        files = {}
        for entry in self._entries(uri, only, "--hash", "--hash-type=md5") if only is None or only else ():
            md5 = (entry.get("Hashes") or {}).get("md5", "")
            files[entry["Path"]] = HashedFile(entry["Size"], moment(entry["ModTime"]), md5.lower())
        return files

    def _entries(self, uri: str, only: Only, *more: str) -> list[dict[str, Any]]:
        flags = ["--recursive", "--files-only", "--no-mimetype", BY_SERVER, *more, *_filter(only)]
        out = self._call(["lsjson", *flags, place(uri)], uri, _names(only))
        lines = (line.strip().rstrip(b",") for line in out.splitlines())
        return [json.loads(line) for line in lines if line not in (b"[", b"]", b"")]

    def read(self, uri: str, start: int, length: int) -> bytes:
        """Bytes of one file; fewer where it is shorter. Raises NothingThere where it is not there."""
        data = self._call(["cat", f"--offset={start}", f"--count={length}", place(uri)], uri, is_needed=True)
        # In a bucket a name without an object is a folder with nothing in it: rclone prints nothing, and ends with 0.
        if not data and os.path.basename(place(uri)) not in self.listing(uri):
            raise NothingThere(f"nothing is at {uri}", True)
        return data

    def write(self, uri: str, content: bytes) -> None:
        """Writes one small file, whole or not at all."""
        self._call(["rcat", f"--size={len(content)}", place(uri)], uri, content)

    def delete(self, uri: str, only: Only = None) -> None:
        """Deletes files; what is not there is no failure."""
        if only is None or only:
            self._call(["delete", *_filter(only), place(uri)], uri, _names(only))

    def download(self, uri: str, path: str, progress: Progress = _no_progress, only: Only = None) -> TransferProgress:
        """A folder, or a single object, to a path on this VM. Raises TransferFailed where nothing is there."""
        moved = self._copy(place(uri), path, uri, progress, only, [BY_SERVER])
        absent = [name for name in only or () if not os.path.exists(os.path.join(path, name))]
        if absent or not os.path.exists(path):
            raise TransferFailed(
                f"{uri}{'/' + absent[0] if absent else ''} does not exist: nothing was downloaded", True
            )
        return moved

    def download_named(self, uri: str, path: str, names: Sequence[str], progress: Progress = _no_progress) -> None:
        """Some files of a folder, each looked up by its name, however many they are. Raises TransferFailed."""
        self._copy(place(uri), path, uri, progress, names, [BY_SERVER, LOOKUP])

    def upload_named(self, path: str, uri: str, names: Sequence[str]) -> None:
        """The same to a place: of a large one no listing is needed. Raises TransferFailed."""
        self._copy(path, place(uri), uri, _no_progress, names, [LOOKUP, "--no-update-modtime"])

    def upload(self, path: str, uri: str, progress: Progress = _no_progress, only: Only = None) -> TransferProgress:
        """A folder or file of this VM to a place; links are followed. Raises TransferFailed where one is missing."""
        moved = self._copy(path, place(uri), uri, progress, only, ["--copy-links", "--no-update-modtime"])
        for name in [path] if only is None else [os.path.join(path, one) for one in only]:
            if not os.path.exists(name):
                raise TransferFailed(f"{name} vanished while it was uploaded to {uri}")
        return moved

    def copy(
        self, source_uri: str, target_uri: str, progress: Progress = _no_progress, only: Only = None
    ) -> TransferProgress:
        """Copies within one provider, on its own servers: nothing passes through this VM.

        Raises TransferFailed where one is missing: rclone would copy the others, and report no failure.
        """
        source, target = place(source_uri), place(target_uri)
        if source.partition(":")[0] != target.partition(":")[0] and not (source[:1] == target[:1] == "/"):
            raise TransferFailed(
                f"{source_uri} and {target_uri} are with different providers: no copy between them", True
            )
        there = self._listing(source_uri, only) if only or only is None else {}
        absent = [name for name in only or () if name not in there]
        if absent or (only is None and not there):
            missing = f"{source_uri}{'/' + absent[0] if absent else ''}"
            raise TransferFailed(f"{missing} does not exist: nothing was copied to {target_uri}", True)
        copied = self._copy(source, target, target_uri, progress, only, ["--no-update-modtime"])
        arrived = self._listing(target_uri, only) if only else there
        lost = [name for name, file in there.items() if name not in arrived or arrived[name].size != file.size]
        if lost:
            raise TransferFailed(f"{source_uri}/{lost[0]} vanished while it was copied to {target_uri}")
        return copied

    def _copy(
        self, source: str, target: str, uri: str, progress: Progress, only: Only, flags: Sequence[str]
    ) -> TransferProgress:
        latest = TransferProgress()
        if only is not None and not only:
            return latest

        def note(stats: Mapping[str, Any]) -> None:
            nonlocal latest
            latest = TransferProgress(
                stats.get("bytes", 0),
                stats.get("totalBytes", 0),
                stats.get("transfers", 0),
                stats.get("totalTransfers", 0),
                stats.get("speed"),
            )
            progress(latest)

        verb = "copy" if only is not None or os.path.isdir(source) else "copyto"
        few = [LOOKUP] if only is not None and len(only) <= FEW_NAMES else []
        names = _names(only)
        self._call([verb, "--stats=1s", *flags, *few, *_filter(only), source, target], uri, names, note)
        return latest

    def _call(
        self,
        arguments: Sequence[str],
        uri: str,
        sent: bytes = b"",
        note: Callable[[Mapping[str, Any]], None] | None = None,
        is_needed: bool = False,
    ) -> bytes:
        """The output. Tries again after trouble that may pass. Raises TransferFailed."""
        mismatches = 0
        for attempt in range(1, TRIES + 1):
            failures = Failures()
            code, out = self._run(arguments, sent, failures, note)
            if code == 0:
                return out
            trouble = failure(uri, code, failures, self._is_bucket, is_needed)
            if trouble is None:
                return b""
            mismatches += trouble.is_mismatch
            if mismatches > 1:
                raise TransferFailed(str(trouble), True)
            if trouble.repeats or attempt == TRIES:
                raise trouble
            self._wait(min(60.0, self._settings.retry_s * 2**attempt))
        raise AssertionError("unreachable")

    def _run(
        self,
        arguments: Sequence[str],
        sent: bytes,
        failures: Failures,
        note: Callable[[Mapping[str, Any]], None] | None,
    ) -> tuple[int, bytes]:
        def hear(line: bytes) -> None:
            stats = failures.hear(line)
            if stats is not None and note is not None:
                note(stats)

        def wait(seconds: float) -> None:
            if self._identity is not None:
                self._identity.refresh()
            self._wait(seconds)

        limit = self._settings.bandwidth_mib_s
        flags = [*FLAGS, *([f"--bwlimit={limit}M"] if limit else [])]
        command = [self._tool(self._wait), *flags, *arguments]
        with self._limited if limit else _Free():
            wait(0)
            return run(command, self._environment, wait, sent, hear, self._is_gentle)

    def _is_bucket(self, uri: str) -> bool:
        """Says whether the bucket of a place can be listed at all, where a listing of the place found no folder."""
        scheme, _, rest = uri.partition("://")
        code, _ = self._run(
            ["lsf", place(f"{scheme}://{rest.partition('/')[0]}/no/such/folder")], b"", Failures(), None
        )
        return code == 0


class _Free:
    """No lock."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def place(uri: str) -> str:
    """A URI as rclone has it. Raises TransferFailed where it is none."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme in ("s3", "gs") and rest.strip("/"):
        return f"{scheme}:{rest.strip('/')}"
    if scheme == "file" and rest.startswith("/"):
        return unquote(rest).rstrip("/") or "/"
    raise TransferFailed(f"{uri!r} is no place: write s3://bucket/folder, gs://bucket/folder or file:///folder", True)


def moment(text: str) -> datetime:
    """Go's times have up to nine digits after the point, and Python 3.8 reads three or six."""
    whole, _, zone = text.replace("Z", "+00:00").partition("+")
    seconds, _, fraction = whole.partition(".")
    return datetime.fromisoformat(f"{seconds}.{fraction[:6]:0<6}+{zone or '00:00'}").astimezone(timezone.utc)


def leads_out(name: str) -> bool:
    """Says whether a name leads out of its folder, as an object's name in a bucket may."""
    return any(part in _NO_PARTS for part in name.split("/"))


def _filter(only: Only) -> list[str]:
    return [] if only is None else ["--files-from-raw=-"]


def _names(only: Only) -> bytes:
    """Returns one name a line, as rclone reads them from its standard input."""
    for name in only or ():
        if leads_out(name):
            raise TransferFailed(f"{name!r} leads out of its folder, and is not touched", True)
        if "\n" in name or "\r" in name:
            raise TransferFailed(f"the name of {name!r} has a line break in it, and cannot be transferred", True)
    return "".join(f"{name}\n" for name in only or ()).encode("utf-8", "surrogateescape")
