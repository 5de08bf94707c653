"""Images as Docker names them, though none is ever fetched: a registry for all VMs, and what each VM has pulled.

The registry is the file registry.json next to the VMs' disks: an image's name to its digest, or to null where it does
not exist. An image that it does not name exists, with a digest made from its name.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REFERENCE = re.compile(
    r"(?P<name>[a-z0-9][a-zA-Z0-9._/-]*(?::\d+/[a-z0-9._/-]+)?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


class NoImage(Exception):
    """The daemon's words."""


@dataclass(frozen=True)
class Reference:
    """`repository` is as Docker shows it: its own Hub and its library are left out."""

    repository: str
    tag: str
    digest: str

    @property
    def tagged(self) -> str:
        return f"{self.repository}:{self.tag}"


def parse(text: str) -> Reference:
    """Raises NoImage, in Docker's words."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise NoImage("invalid reference format")
    name = re.sub(r"^(docker\.io/)?(library/)?", "", found["name"])
    return Reference(name, found["tag"] or ("" if found["digest"] else "latest"), found["digest"] or "")


class Images:
    """Of one VM."""

    def __init__(self, disk: Path) -> None:
        self._registry = disk.parent / "registry.json"
        self._store = disk / "var/lib/docker/images.json"

    def pull(self, reference: Reference) -> str:
        """The digest that the registry has now. Raises NoImage."""
        known = _read(self._registry)
        if reference.digest:
            return reference.digest
        made_up = "sha256:" + hashlib.sha256(reference.tagged.encode()).hexdigest()
        digest = known.get(reference.tagged, made_up)
        if digest is None and any(name.startswith(f"{reference.repository}:") and known[name] for name in known):
            raise NoImage(f"manifest for {reference.tagged} not found: manifest unknown: manifest unknown")
        if digest is None:
            raise NoImage(
                f"pull access denied for {reference.repository}, repository does not exist or may require "
                "'docker login': denied: requested access to the resource is denied"
            )
        return str(digest)

    def keep(self, reference: Reference, digest: str) -> bool:
        """Whether it is new on this VM."""
        store = _read(self._store)
        pulled = f"{reference.repository}@{digest}"
        is_new = pulled not in store.values()
        store[pulled] = pulled
        if reference.tag and not reference.digest:
            store[reference.tagged] = pulled
        self._store.parent.mkdir(parents=True, exist_ok=True)
        self._store.write_text(json.dumps(store))
        return is_new

    def find(self, reference: Reference) -> dict[str, Any] | None:
        """As `docker image inspect` shows it, in part; None where this VM has not pulled it."""
        store = _read(self._store)
        name = f"{reference.repository}@{reference.digest}" if reference.digest else reference.tagged
        pulled = store.get(name)
        if pulled is None:
            return None
        tags = [tag for tag, digest in store.items() if digest == pulled and "@" not in tag]
        return {
            "Id": "sha256:" + hashlib.sha256(f"config of {pulled}".encode()).hexdigest(),
            "RepoTags": tags,
            "RepoDigests": [pulled],
        }


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
