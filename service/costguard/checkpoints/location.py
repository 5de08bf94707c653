"""Parses the location of checkpoints: `gs://bucket/path`, `s3://bucket/path`, `file:///path` or a path."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from costguard.errors import (
    CheckpointError,
    CheckpointLocationMissing,
    CheckpointLocationRefused,
    CheckpointLocationUnavailable,
    CheckpointLocationWrong,
)
from costguard.refusals.explanation import RefusalKind
from costguard.refusals.reader import explain
from costguard_vm.checkpoints.layouts.plain import STEP
from costguard_vm.model.checkpoint import Framework, LookFor

_AGAIN = "It is tried again at the next look."
_NETWORK = f"Check the network, proxy and endpoint. {_AGAIN}"
_KEYS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (a profile is not read: "
    '`eval "$(aws configure export-credentials --format env)"` sets them), or run where a role gives them.',
    "gs": "Run `gcloud auth application-default login`, or run where a service account gives them.",
}
_ALLOW = {
    "s3": "Allow s3:ListBucket on the bucket and s3:GetObject on what is in it.",
    "gs": "Grant the role Storage Object Viewer (roles/storage.objectViewer) on the bucket.",
}
_CREDENTIAL_SIGNS = (
    "169.254.169.254",
    "/latest/api/token",
    "token request",
    "valid authentication credentials",  # obstore, when google-auth gave none
    "InvalidAccessKeyId",
    "ExpiredToken",
    "InvalidToken",
    "SignatureDoesNotMatch",
)


def of_store(wrong: Exception, where: Location) -> CheckpointError:
    """obstore raises most failures as one kind of error; status and S3's code are only in its text."""
    text, _, source = str(wrong).partition("\n\nDebug source")
    status = re.search(r"status code: ([0-9]{3})", text)
    code = status[1] if status else ""
    shown = _short(text)
    if "TransportError" in text:  # google-auth did not reach the token server
        return CheckpointLocationUnavailable(f"{where}: Google's tokens cannot be fetched ({shown}).", _NETWORK)
    if any(sign in text for sign in _CREDENTIAL_SIGNS) or code == "401":
        return CheckpointLocationRefused(
            f"{where}: there are no credentials that it accepts ({shown}).", _KEYS[where.scheme]
        )
    if code == "403":
        return CheckpointLocationRefused(f"{where}: it may not be read ({shown}).", _way_in(text, where))
    if code == "404":
        return CheckpointLocationMissing(
            f"There is no bucket {where.bucket} at {where.scheme}://.", "Check its name, its endpoint and its region."
        )
    if "incorrectly configured region" in text or code in ("301", "307", "400"):
        return CheckpointLocationRefused(
            f"{where}: the bucket is of another region, or the endpoint is not its own ({shown}).",
            "Set checkpoints.s3_region or AWS_REGION to the bucket's region, and check the endpoint.",
        )
    if code in ("429", "503"):
        return CheckpointLocationUnavailable(f"{where}: it gets too many requests for now ({shown}).", _AGAIN)
    if code:
        return CheckpointLocationUnavailable(f"{where}: the store answers with {code} ({shown}).", _AGAIN)
    host = re.search(r" [A-Z]+ https?://([^/\s]+)", text)
    store = f"the store at {host[1]}" if host else "the store"
    if "dns error" in source:
        return CheckpointLocationUnavailable(f"{where}: {store} cannot be found by its name.", _NETWORK)
    return CheckpointLocationUnavailable(f"{where}: {store} does not answer ({shown}).", _NETWORK)


def _way_in(text: str, where: Location) -> str:
    """Says what mends a denial: a role, unless a policy, a perimeter or a closed account is in the way."""
    reading = explain(text, status=403, service="storage.googleapis.com")
    if where.scheme != "gs" or reading.kind in (RefusalKind.PERMISSION, RefusalKind.UNKNOWN):
        return _ALLOW[where.scheme]
    return f"{reading.sentence} {reading.mend}"


def of_system(wrong: OSError, where: Location) -> CheckpointError:
    path = str(where)
    if wrong.errno == errno.ENOENT:
        return CheckpointLocationMissing(f"There is no folder {path}.", "Check the path; on a VM's disk, look there.")
    if wrong.errno == errno.ENOTDIR:
        return CheckpointLocationMissing(f"{path} is no folder.", "Name the folder that holds the checkpoints.")
    if wrong.errno in (errno.EACCES, errno.EPERM):
        return CheckpointLocationRefused(f"{path} may not be read.", "Let this user read the folder and what is in it.")
    return CheckpointLocationUnavailable(
        f"{path} cannot be read: {wrong.strerror or wrong}.", "Check the disk or mount."
    )


def _short(text: str) -> str:
    """S3's code and message where there are any, else the end of the sentence."""
    code, words = re.search(r"<Code>([^<]{1,80})", text), re.search(r"<Message>([^<]{1,200})", text)
    if code:
        return f"{code[1]}: {words[1]}" if words else code[1]
    text = text.rpartition("credential provider: ")[2]
    reason = re.split(r" in [0-9.]+[mµn]?s(?:, after [^-]*)? +- ", text)[-1]
    return " ".join(reason.split())[:200].rstrip(": .")


_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{1,221}")
_FORMS = "Write gs://bucket/path, s3://bucket/path, or a folder's path."
_MOST_STARS, _LONGEST_PATTERN = 16, 500  # more than a person writes


@dataclass(frozen=True, slots=True)
class Location:
    """`scheme` is gs, s3 or file; `path` is below the bucket, or absolute, and never ends in a slash."""

    scheme: str
    bucket: str
    path: str

    def __str__(self) -> str:
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")


def parse(text: str) -> Location:
    """Raises CheckpointLocationWrong."""
    scheme, has_scheme, rest = text.partition("://")
    if not text.strip() or re.search(r"[\x00-\x1f\x7f]", text):
        raise CheckpointLocationWrong(f"{text!r} is no location of checkpoints.", _FORMS)
    if not has_scheme:
        return _folder(text)
    if scheme.lower() == "file":
        return _file_url(text)
    if scheme.lower() not in ("gs", "s3"):
        raise CheckpointLocationWrong(f"{text}: checkpoints cannot be read from {scheme}://.", _FORMS)
    bucket, _, path = rest.partition("/")
    path = path.strip("/")
    if not _BUCKET.fullmatch(bucket):
        raise CheckpointLocationWrong(f"{text}: {bucket!r} cannot be a bucket's name.", _FORMS)
    if any(part in ("", ".", "..") for part in path.split("/")) and path:
        raise CheckpointLocationWrong(f"{text}: a part of the path is empty, . or ..", "Write the path out.")
    return Location(scheme.lower(), bucket, path)


def check(look_for: LookFor) -> None:
    """Raises CheckpointLocationWrong where pattern, marker and framework do not go together."""
    for what, given in (("pattern", look_for.pattern), ("marker", look_for.marker)):
        if len(given) > _LONGEST_PATTERN:
            text = f"The {what} {given[:80]!r}... has {len(given)} characters."
            raise CheckpointLocationWrong(text, f"Write {_LONGEST_PATTERN} at most.")
        if given.count("*") > _MOST_STARS:
            text = f"The {what} {given[:80]!r} has {given.count('*')} stars."
            raise CheckpointLocationWrong(text, f"Use {_MOST_STARS} * at most.")
    if look_for.pattern and STEP not in look_for.pattern:
        raise CheckpointLocationWrong(
            f"The pattern {look_for.pattern!r} does not say where the step stands.",
            "Write ckpt_{step}.pt, for example.",
        )
    for given in (look_for.pattern, look_for.marker):
        if given.startswith(("/", "./")) or "://" in given:
            raise CheckpointLocationWrong(f"{given!r} is a whole path.", "Write it as it is below the location.")
    if look_for.pattern.endswith("/") and not look_for.marker:
        raise CheckpointLocationWrong(
            f"The pattern {look_for.pattern!r} names folders, and nothing shows when one is complete.",
            "Give the file that is written last in it: --marker DONE.",
        )
    needs = {Framework.FILES: ("pattern", look_for.pattern), Framework.MARKER: ("marker", look_for.marker)}
    if look_for.framework in needs and not needs[look_for.framework][1]:
        name = needs[look_for.framework][0]
        raise CheckpointLocationWrong(f"The framework {look_for.framework} needs a {name}.", f"Give it: --{name}.")
    if look_for.framework not in (None, *needs) and (look_for.pattern or look_for.marker):
        raise CheckpointLocationWrong(
            f"The framework {look_for.framework} has its own layout, so a pattern or marker means nothing.",
            "Leave one of them out.",
        )


def _folder(text: str) -> Location:
    try:
        return Location("file", "", str(Path(text).expanduser().absolute()))
    except (RuntimeError, OSError) as error:
        raise CheckpointLocationWrong(f"{text}: {error}.", _FORMS) from None


def _file_url(text: str) -> Location:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise CheckpointLocationWrong(f"{text}: a file:// location has three slashes and a whole path.", _FORMS)
    path = unquote(parts.path)
    if "\x00" in path:
        raise CheckpointLocationWrong(f"{text!r} is no location of checkpoints.", _FORMS)
    return Location("file", "", path.rstrip("/") or "/")
