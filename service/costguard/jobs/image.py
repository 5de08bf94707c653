"""References of container images, as `docker run` would take them, read strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(r"(?:(?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)*(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?::[0-9]{1,5})?")
_LONGEST = 255 + 129 + 72  # the most that name, tag and digest may have; Docker counts the name by itself


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry` is empty for Docker Hub's; without tag and digest it means `latest`."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""


def parse(text: str) -> ImageReference:
    """`[registry[:port]/]repository[:tag][@sha256:...]`. Raises ValueError with what is wrong."""
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError("a digest is written @sha256: and 64 hexadecimal digits")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError("a tag has 1 to 128 letters, digits, dots, hyphens or underscores")
    name = f"{head}{slash}{last}"
    first, slash, path = name.partition("/")
    if not slash or not _is_host(first):
        first, path = "", name
    elif not _HOST.fullmatch(first):
        raise ValueError("its registry is no host's name")
    for part in path.split("/"):
        if not _PART.fullmatch(part):
            raise ValueError(
                "its repository has small letters and digits, with single dots or underscores, or hyphens, between them"
            )
    return ImageReference(first, path, tag, digest)


def pinned(text: str, digest: str) -> str:
    """With the digest that its tag had; as it is where it has one, or none is known."""
    return f"{text}@{digest}" if text and digest and "@" not in text else text


def _is_host(text: str) -> bool:
    """Docker's own rule: `library/python` is a repository, `localhost/python` and `ghcr.io/python` name registries."""
    return "." in text or ":" in text or text == "localhost" or text != text.lower()
