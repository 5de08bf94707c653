"""Where checkpoints live: `gs://bucket/path`, `s3://bucket/path`, `file:///path` or a path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from costguard.checkpoints.layouts.pattern import STEP
from costguard.errors import CheckpointLocationWrong
from costguard.model.checkpoint import Framework, LookFor

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{1,221}")
_FORMS = "Write gs://bucket/path, s3://bucket/path, or a folder's path."
_MOST_STARS, _LONGEST_PATTERN = 16, 500  # more is nothing that a person writes


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
            said = f"The {what} {given[:80]!r}... has {len(given)} characters."
            raise CheckpointLocationWrong(said, f"Write {_LONGEST_PATTERN} at most.")
        if given.count("*") > _MOST_STARS:
            said = f"The {what} {given[:80]!r} has {given.count('*')} stars."
            raise CheckpointLocationWrong(said, f"Use {_MOST_STARS} * at most.")
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
            f"The pattern {look_for.pattern!r} names folders, and nothing tells when one is whole.",
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
