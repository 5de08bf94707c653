"""A container's image: pulled before the command starts, and its tag resolved to a digest, once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from . import docker
from .calls import Metadata, Trouble, patiently
from .files import read_json, say, write_json
from .settings import NotStarted, Settings

PULL_TRIES = 5
DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
# What registries and Docker say of an image that is not there: asking again, from here or another VM, changes nothing.
NO_SUCH_IMAGE = re.compile(
    r"manifest unknown|name unknown|not found|repository does not exist|no matching manifest|invalid reference format"
)
NO_ACCESS = re.compile(r"access denied|denied: |unauthorized|may require 'docker login'")


class Image(NamedTuple):
    """`reference` is what `docker run` is given. `digest` is empty for an image that no registry knows."""

    reference: str
    digest: str


def resolve(settings: Settings, folder: str, config: str, metadata: Metadata, wait: Callable[[float], None]) -> Image:
    """The tag of the first pull on this VM, unless the job asks for the tag again. Raises NotStarted, or Trouble."""
    if not shutil.which("docker"):
        raise NotStarted("this VM has no docker: take a boot image that has it, or leave the job's image out", True)
    noted = f"{folder}/image.json"
    before = read_json(noted)
    asked = settings.image
    if before.get("image") == asked and before.get("digest") and not settings.pull and not DIGEST.search(asked):
        asked = f"{asked}@{before['digest']}"
    is_logged_in = docker.log_in(settings, config, metadata)
    try:
        patiently(lambda: _pull(asked, config, is_logged_in, wait, settings.poll_s), wait, PULL_TRIES, settings.retry_s)
    except (NotStarted, Trouble) as problem:
        found = _inspect(asked)
        if found is None:
            raise
        say(f"{problem}; the copy of {asked} on this VM is used")
    else:
        found = _inspect(asked)
    image = _image(asked, found or {})
    try:
        write_json(noted, {"image": settings.image, "digest": image.digest})
    except OSError as error:
        say(f"the digest of {settings.image} is not kept on this VM: {error}")
    return image


def _pull(asked: str, config: str, is_logged_in: bool, wait: Callable[[float], None], poll_s: float) -> None:
    code, text = _run(["docker", "--config", config, "pull", asked], wait, poll_s)
    if code == 0:
        return
    lines = [line for line in text.strip().splitlines() if line.strip()]
    words = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else f"exit code {code}")
    message = f"docker pull {asked} failed: {words.strip()}"
    if NO_SUCH_IMAGE.search(words) or (is_logged_in and NO_ACCESS.search(words)):
        raise NotStarted(message, True)
    raise Trouble(message)


def _inspect(asked: str) -> dict[str, Any] | None:
    """What Docker knows of an image on this VM; nothing where it has none."""
    command = ["docker", "image", "inspect", asked]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        found = json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        say(f"docker image inspect {asked} failed: {problem!r}")
        return None
    return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else None


def _image(asked: str, found: dict[str, Any]) -> Image:
    known = DIGEST.search(asked)
    if known:
        return Image(asked, known.group(1))
    names = [name for name in found.get("RepoDigests") or [] if isinstance(name, str)]
    repository = re.sub(r":[\w.-]+$", "", asked)
    # Docker shortens names of its own Hub: docker.io/library/busybox is busybox there.
    short = re.sub(r"^(docker\.io/)?(library/)?", "", repository)
    mine = [name for name in names if name.split("@")[0] in (repository, short)] or names
    digest = DIGEST.search(mine[0]) if mine else None
    return Image(f"{asked}@{digest.group(1)}", digest.group(1)) if digest else Image(asked, "")


def _run(command: list[str], wait: Callable[[float], None], poll_s: float) -> tuple[int, str]:
    """Exit code and all that was printed. `wait` raises when nobody wants the command any more."""
    printed: list[bytes] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        reading = threading.Thread(target=lambda: printed.append(process.communicate()[0]), daemon=True)
        reading.start()
        try:
            while reading.is_alive():
                wait(poll_s)
        except BaseException:
            process.kill()
            raise
    return process.returncode, b"".join(printed).decode("utf-8", "replace")
