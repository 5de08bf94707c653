"""The stand-in Docker's store: image names and digests, and the state of containers that ended.

No image is ever fetched. The registry of all VMs is the file registry.json next to their disks: an image's name to its
digest, or to null where it does not exist. An image that it does not name exists, with a digest made from its name.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_REFERENCE = re.compile(
    r"(?P<name>[a-z0-9][a-zA-Z0-9._/-]*(?::\d+/[a-z0-9._/-]+)?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


NEVER = "0001-01-01T00:00:00Z"


class NoImage(Exception):
    """No such image; the text is the daemon's."""


@dataclass(frozen=True)
class Reference:
    """`repository` is as Docker shows it: without the Hub and its library."""

    repository: str
    tag: str
    digest: str

    @property
    def tagged(self) -> str:
        return f"{self.repository}:{self.tag}"


def parse(text: str) -> Reference:
    """Raises NoImage for an invalid reference."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise NoImage("invalid reference format")
    name = re.sub(r"^(docker\.io/)?(library/)?", "", match["name"])
    return Reference(name, match["tag"] or ("" if match["digest"] else "latest"), match["digest"] or "")


class Images:
    """The images that one VM has pulled."""

    def __init__(self, disk: Path) -> None:
        self._registry = disk.parent / "registry.json"
        self._store = disk / "var/lib/docker/images.json"

    def pull(self, reference: Reference) -> str:
        """The digest in the registry. Raises NoImage."""
        registry = _read(self._registry)
        if reference.digest:
            return reference.digest
        made_up = "sha256:" + hashlib.sha256(reference.tagged.encode()).hexdigest()
        digest = registry.get(reference.tagged, made_up)
        if digest is None and any(name.startswith(f"{reference.repository}:") and registry[name] for name in registry):
            raise NoImage(f"manifest for {reference.tagged} not found: manifest unknown: manifest unknown")
        if digest is None:
            raise NoImage(
                f"pull access denied for {reference.repository}, repository does not exist or may require "
                "'docker login': denied: requested access to the resource is denied"
            )
        return str(digest)

    def keep(self, reference: Reference, digest: str) -> bool:
        """Record a pulled image; True when it is new on this VM."""
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
        """Returns an image as `docker image inspect` shows it, in part; None where this VM has not pulled it."""
        store = _read(self._store)
        name = f"{reference.repository}@{reference.digest}" if reference.digest else reference.tagged
        pulled = store.get(name)
        if pulled is None:
            return None
        tags = [tag for tag, digest in store.items() if digest == pulled and "@" not in tag]
        return {
            "Id": "sha256:" + hashlib.sha256(f"config of {pulled}".encode()).hexdigest(),
            "RepoTags": tags,
            "RepoDigests": [pulled] if pulled.startswith(f"{reference.repository}@") else [],
            "Config": _read(self._files(pulled).with_suffix(".json")) or {"Entrypoint": None, "Cmd": None},
        }

    def commit(self, reference: Reference, files: Path, config: dict[str, Any]) -> str:
        """The id of a new image with these files: this VM's alone, without a digest in a registry."""
        image = "sha256:" + hashlib.sha256(f"{reference.tagged} {now()}".encode()).hexdigest()
        layer = self._files(image)
        layer.parent.mkdir(parents=True, exist_ok=True)
        if files.exists():
            shutil.copytree(files, layer, symlinks=True)
        layer.with_suffix(".json").write_text(json.dumps(config))
        self._store.parent.mkdir(parents=True, exist_ok=True)
        self._store.write_text(json.dumps({**_read(self._store), reference.tagged: image}))
        return image

    def unpack(self, image: str, folder: Path) -> None:
        """Puts what was committed with this image into a container's folder."""
        try:
            layer = self._files(str(_read(self._store).get(parse(image).tagged, "")))
        except NoImage:
            return
        if layer.is_dir():
            shutil.copytree(layer, folder, symlinks=True)

    def _files(self, image: str) -> Path:
        return self._store.with_name("layers") / hashlib.sha256(image.encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")  # noqa: TID251  a program of the VM's own


def ended(code: int, started_at: str, error: str = "") -> dict[str, Any]:
    """The state of an ended container. One whose command could not be executed stays `created`, without times."""
    never = started_at == NEVER
    return {
        "Status": "created" if never else "exited",
        "Running": False,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": 0,
        "ExitCode": code,
        "Error": error,
        "StartedAt": started_at,
        "FinishedAt": NEVER if never else now(),
    }


class EndedContainers:
    """The containers of one VM that ended and were not removed, as `docker container inspect` shows them."""

    def __init__(self, disk: Path) -> None:
        self._folder = disk / "var/lib/docker/containers"

    def keep(self, name: str, state: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(json.dumps(state))

    def files(self, name: str) -> Path:
        """Returns the folder of the files that the container wrote outside of volumes."""
        return self._folder / f"{name}.files"

    def state(self, name: str) -> dict[str, Any] | None:
        try:
            state = json.loads((self._folder / name).read_text())
        except (OSError, ValueError):
            return None
        return state if isinstance(state, dict) else None

    def remove(self, name: str) -> bool:
        """False when there is none."""
        shutil.rmtree(self.files(name), ignore_errors=True)
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
