"""What a `docker run` asks for, as far as a local process can have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SWITCHES = {"--rm", "--init", "--privileged", "--read-only", "--sig-proxy", "--quiet", "-q"} | {
    "--interactive",
    "-i",
    "--tty",
    "-t",
    "-it",
}
# They bound or share what a local process has anyway.
_WITHOUT_EFFECT = re.compile(
    "--(cap-(add|drop)|cpus?(set-cpus|-shares)?|device|dns|gpus|group-add|hostname|ipc|label|log-(driver|opt)|memory"
    "(-swap)?|network|oom-score-adj|pid|platform|pull|restart|runtime|security-opt|shm-size|stop-timeout|tmpfs|ulimit"
    "|user(ns)?)|-[hlmu]"
)
# A path goes on before or after what looks like one: /x/data, $X/data, /data-2.
_INSIDE_BEFORE, _INSIDE_AFTER = r"(?<![\w./\-})\]~*%])", r"(?![\w.-])"
_SHORT = {"-v": "--volume", "-w": "--workdir", "-e": "--env"}


class Failed(Exception):
    """Docker's own failure, which it tells with exit code 125."""


@dataclass
class Container:
    """`volumes`: places in the container, and where they really are."""

    name: str = ""
    workdir: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Path] = field(default_factory=dict)
    image: str = ""
    command: list[str] = field(default_factory=list)
    has_init: bool = False
    is_removed: bool = False  # when it ends

    def rewritten(self, text: str) -> str:
        """With every path under a volume's place, alone or within a longer text, as where it really is."""
        if not self.volumes:
            return text
        deepest_first = sorted(self.volumes, key=len, reverse=True)
        places = "|".join(re.escape(place) for place in deepest_first)
        alone = rf"{_INSIDE_BEFORE}({places}){_INSIDE_AFTER}"
        return re.sub(alone, lambda found: str(self.volumes[found[1]]), text)

    def place_of_workdir(self, own_files: Path) -> Path:
        """Outside all volumes it is among the files that go when the container does."""
        place = self.rewritten(self.workdir)
        return (
            own_files / self.workdir.lstrip("/") if place == self.workdir and not self._is_real(place) else Path(place)
        )

    def _is_real(self, place: str) -> bool:
        return any(place == str(path) or place.startswith(f"{path}/") for path in self.volumes.values())


def read_run(words: Sequence[str], disk: Path, environment: Mapping[str, str]) -> Container:
    """Raises Failed for an option that it does not know: it could change what runs."""
    left, asked = list(words), Container()
    while left and left[0].startswith("-"):
        option, is_joined, value = left.pop(0).partition("=")
        option = _SHORT.get(option, option)
        if option in _SWITCHES:
            asked.has_init = asked.has_init or option == "--init"
            asked.is_removed = asked.is_removed or option == "--rm"
            continue
        if not is_joined and not left:
            raise Failed(f"flag needs an argument: {option}")
        _take(asked, option, value if is_joined else left.pop(0), disk, environment)
    if not left:
        raise Failed("'docker run' requires at least 1 argument: an image")
    asked.image = left[0]
    asked.command = left[1:]
    if not asked.command:
        raise Failed(f"the simulated docker has no images, so it does not know what {left[0]} runs: give a command")
    return asked


def _take(asked: Container, option: str, value: str, disk: Path, environment: Mapping[str, str]) -> None:
    if option == "--name":
        asked.name = value
    elif option == "--workdir":
        asked.workdir = value
    elif option == "--env":
        name, is_given, given = value.partition("=")
        if is_given or name in environment:  # named alone, it comes from whoever calls
            asked.environment[name] = given if is_given else environment[name]
    elif option == "--volume":
        source, _, place = value.partition(":")
        asked.volumes[(place.partition(":")[0] or source).rstrip("/")] = _source(source, disk)
    elif not _WITHOUT_EFFECT.fullmatch(option):
        raise Failed(f"unknown flag: {option} (the simulated docker knows a part of them)")


def _source(source: str, disk: Path) -> Path:
    if not source.startswith("/"):
        return disk / "var/lib/docker/volumes" / source
    path = Path(source)
    return path if path.is_relative_to(disk) else disk / source.lstrip("/")
