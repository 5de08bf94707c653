"""The demo's jobs: what its people launch, read from jobs.toml, and the training whose result is compared."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costguard.cli.server import ServerClient
from costguard.errors import CostguardError
from costguard.model.words import count_text

_DECLARED = Path(__file__).with_name("jobs.toml")
_TRAINING = ("-m", "costguard_sandbox.scenarios.training")
_MAIN = "train-moons"  # whose result is compared
_OVER = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Launched:
    """A job or a sweep that was launched: `path` is where the API shows it, and pages, too."""

    path: tuple[str, str]
    vms: int


@dataclass(slots=True)
class DemoJobs:
    """Launches jobs over REST, as users would, each once its VMs fit next to those of the earlier ones.

    `steps` are those of the first job. Without `is_whole` it is the only one, and runs in `project`.
    """

    server: ServerClient
    folder: Path
    project: str
    steps: int
    is_whole: bool
    main: DemoJob | None = None
    _waiting: list[dict[str, Any]] = field(default_factory=list)
    _open: list[Launched] = field(default_factory=list)
    _at_once: int = 0

    def __post_init__(self) -> None:
        declared = tomllib.loads(_DECLARED.read_text("utf-8"))
        self._at_once = declared["at_once"]
        self._waiting = declared["launch"] if self.is_whole else declared["launch"][:1]

    def launch_due(self) -> list[str]:
        """Launches what there is room for now, and returns a line for each. One that is refused is left out."""
        lines = []
        if self._waiting:
            self._open = [one for one in self._open if not self._is_over(one)]
        while self._waiting and self._vms + self._waiting[0]["vms"] <= self._at_once:
            lines.append(self._launch(self._waiting.pop(0)))
        return lines

    def end(self) -> None:
        if self.main is not None:
            self.main.end()

    @property
    def _vms(self) -> int:
        return sum(one.vms for one in self._open)

    def _is_over(self, one: Launched) -> bool:
        shown = self.server.get(*one.path)
        return (shown.get("job") or shown["sweep"])["state"] in _OVER

    def _launch(self, one: Mapping[str, Any]) -> str:
        kind, body = one["to"], self._filled(one["body"])
        job, title = body.get("job", body), body["name"]
        job.setdefault("project", self.project)
        if "checkpoint" in job:
            Path(job["checkpoint"]["location"].removeprefix("file://")).mkdir()
        try:
            answer = self.server.post(kind, body=body, key=f"demo-{title}")
        except CostguardError as error:
            return f"This demo has no {title}: {error.message}"
        made = str((answer.get("job") or answer["sweep"])["id"])
        self._open.append(Launched((kind, made), one["vms"]))
        if title == _MAIN:
            self.main = DemoJob(made, self.folder, self.steps)
        return f"{job['owner']} {one['says']}: {self.server.url}/{kind}/{made}"

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._filled(part.split() if name == "command" else part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if isinstance(value, str):
            filled = value.replace("FOLDER", str(self.folder)).replace("STEPS", str(self.steps))
            return filled.replace("PYTHON", Path(sys.executable).name)
        return value


@dataclass(slots=True)
class DemoJob:
    """The training. Once it has succeeded, it is run again without interruption, to compare the results."""

    id: str
    folder: Path
    steps: int
    comparison: str = ""  # of the results; "" until it is known
    _without_stop: subprocess.Popen[bytes] | None = None

    def look(self, server: ServerClient) -> tuple[dict[str, Any], list[str]]:
        """The job as the API shows it, and the last lines that it printed."""
        detail, output = server.get("jobs", self.id), server.get("jobs", self.id, "output")
        self._compare(detail["job"])
        return detail, str(output["output"]).splitlines()[-2:]

    def end(self) -> None:
        if self._without_stop is not None:
            self._without_stop.kill()
            self._without_stop.wait()

    def _compare(self, job: dict[str, Any]) -> None:
        if self.comparison or job["state"] != "succeeded":
            return
        again = self.folder / "uninterrupted.json"
        if self._without_stop is None:
            places = ["--checkpoints", str(self.folder / "others"), "--result", str(again), "--steps", str(self.steps)]
            # One checkpoint at its end, and no pause between two steps: it takes a second.
            hasty = ["--every", str(self.steps), "--step-seconds", "0"]
            self._without_stop = subprocess.Popen(  # noqa: S603 - no shell, and every argument is ours
                [sys.executable, *_TRAINING, *places, *hasty], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        elif self._without_stop.poll() is not None:
            self.comparison = _comparison(job, self.folder / "result.json", again)


def _comparison(job: dict[str, Any], result: Path, again: Path) -> str:
    try:
        text, other = result.read_text("utf-8"), again.read_text("utf-8")
        loss = float(json.loads(text)["loss"])
    except (OSError, ValueError, KeyError) as error:
        return f"{job['title']}: its result could not be compared with that of an uninterrupted run: {error}"
    if text != other or math.isnan(loss):
        return f"{job['title']}: NOT the result of an uninterrupted run: something was lost or done twice."
    vms = f"{count_text(job['attempts'], 'VM')}, {job['preemptions']} of them preempted"
    return f"{job['title']}: same result as an uninterrupted run, to the last bit: loss {loss:.6f} on {vms}."
