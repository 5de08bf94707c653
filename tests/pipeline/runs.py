"""Makes one journey from a laptop to a finished model, under a guard and in simulated VMs that really run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.pages.html import Page, tidy
from tests.pipeline import pictures
from tests.pipeline.journeys import DATA, LAST_STEP, MODELS, RUNS, Interruption, Journey
from tests.pipeline.object_store import Hold, ObjectStore
from tests.scenario import guard_process
from tests.scenario.training_ground import OWNER, TrainingWorld, ground
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

from costguard_sandbox.gce.vm import VM, Status

_PATIENCE_S = 600.0
_LOOK_S = 0.2
_COSTGUARD = str(Path(sys.executable).parent / "costguard")
GRACE_S = 6.0  # from the notice to the end of the VM's power


@dataclass
class JourneyRun:
    """The result of a journey.

    The digests are of the final weights; `moments` are when its VM was taken away, and the page.
    """

    journey: Journey
    job: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    step: int | None = None
    output: list[str] = field(default_factory=list)
    uploads: dict[str, int] = field(default_factory=dict)
    downloads: dict[str, int] = field(default_factory=dict)
    final: str = ""
    uninterrupted: str = ""
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """Lists what is not as it should be, as sentences; empty where all is."""
        name = self.journey.title
        expected = ["preempted"] * len(self.journey.interruptions) + ["succeeded"]
        sentences = {
            f"the attempts ended {', '.join(self.outcomes)}": self.outcomes != expected,
            "the final weights differ from those of an uninterrupted run": self.final != self.uninterrupted,
            f"the output holds {', '.join(self.output)}": not _is_published(self.journey, self.output),
            f"the newest checkpoint is of step {self.step}": self.step != LAST_STEP,
            f"the page lacks {'; '.join(self.missing)}": bool(self.missing),
        }
        sentences |= {
            f"{path} was downloaded {count} times": count > len(self.attempts) for path, count in self.downloads.items()
        }
        return [f"{name}: {sentence}" for sentence, is_wrong in sentences.items() if is_wrong]

    @property
    def outcomes(self) -> list[str]:
        return [attempt["outcome"] for attempt in self.attempts]

    @property
    def resumed_at(self) -> list[int | None]:
        return [attempt["resume_step"] for attempt in self.attempts[1:]]


def run(journey: Journey, store: ObjectStore, data: Path, folder: Path) -> JourneyRun:
    """`data` is the folder of the data set, which is in the bucket too."""
    began = time.monotonic()
    result = JourneyRun(journey, uninterrupted=_uninterrupted(journey, data, folder / "uninterrupted"))
    own = folder / "vm"
    project = laptop(journey, folder / "laptop")
    settings = f'code = "file://{folder}/code"'
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    with ground(folder, GRACE_S, settings, path, (own,)) as place:
        first = _hold(store, journey.interruptions[0])
        job = _launch(journey, place, store, project, own)
        _Interrupter(place, store, job, result).run(journey.interruptions, first)
        _wait(place, lambda: place.ask(f"jobs/{job}")["job"]["state"] in _OVER, "the job is over")
        detail = place.ask(f"jobs/{job}")
        result.job, result.attempts = detail["job"], detail["attempts"]
        result.step = _newest_step(store.names(RUNS, journey.name))
        text = page(place, job, folder / "end")
        for what, part in expected_on_the_page(journey, project, own).items():
            result.shown.append(f"{what}: `{part.replace(f'{ROOT}/', '')}`") if part in text else result.missing.append(
                f"{what} ({part})"
            )
        place.wait_until_nothing_bills()
    store.get(MODELS, journey.name, folder / "fetched")
    result.output = store.names(MODELS, journey.name)
    model = folder / "fetched" / journey.model
    result.final = _digest(model) if model.exists() else "no model"
    result.uploads = _count(store, "PUT", f"/{RUNS}/{journey.name}/")
    result.downloads = _count(store, "GET", f"/{DATA}/")
    result.seconds = time.monotonic() - began
    return result


def _newest_step(names: Sequence[str]) -> int | None:
    """Returns the newest step of the checkpoints in the bucket, by their names."""
    steps = [int(match[1]) for name in names if (match := re.search(r"(?:checkpoint-|step=|ckpt_)(\d+)", name))]
    return max(steps, default=None)


_UP = frozenset({Status.PROVISIONING, Status.STAGING, Status.RUNNING, Status.STOPPING})
_OVER = ("succeeded", "failed", "cancelled")


def _is_published(journey: Journey, names: Sequence[str]) -> bool:
    """The model is there with the mark that all of it is, and nothing is left of attempts."""
    wanted = {f"{journey.name}/{journey.model}", f"{journey.name}/_SUCCESS"}
    return wanted <= set(names) and not any("/.costguard/" in name for name in names)


def laptop(journey: Journey, folder: Path) -> Path:
    """The project as a repository of its own, with one change that is not committed, and files that git ignores."""
    shutil.copytree(journey.project, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("data/\nout/\n")
    (folder / "out").mkdir()
    (folder / "out" / "old.ckpt").write_bytes(b"\0" * 1024)
    git = ["git", "-c", "user.name=Ana", "-c", "user.email=ana@example.com", "-C", str(folder)]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "Train on tokens"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    script = folder / "train.py"
    script.write_text(script.read_text() + "\n# tried on a laptop\n")
    return folder


def page(place: TrainingWorld, job: str, keep: Path | None = None) -> str:
    """The text of the job's page. `keep` is where its HTML and a picture of it go, without their endings."""
    address = f"{place.url}/jobs/{job}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {guard_process.TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        html = answer.read().decode()
    if keep is not None:
        keep.with_suffix(".html").write_text(html)
        pictures.take(address, keep.with_suffix(".png"))
    return tidy(Page(html).text)


def expected_on_the_page(journey: Journey, project: Path, own: Path) -> dict[str, str]:
    """Returns what a page of a job that has ended must show, by what it is."""
    commit = subprocess.run(["git", "-C", str(project), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    count = len(journey.interruptions)
    return {
        "its data": f"s3://{DATA}/v7 in {own}/data",
        "where its checkpoints are": journey.checkpoints,
        "where the command saves them": f"{own}/out, the newest 3 kept",
        "its output": f"{journey.output} from {own}/model",
        "that the data came": "downloaded: 1.0 MiB, 4 files",
        "that the output was published": "; published: ",
        "what was not committed": "+# tried on a laptop",
        "the commit of its code": commit[:12],
        "that some of it was not committed": "with changes that were not committed",
        "its setup": "python -m compileall",
        "its preemptions": f"{count} of 100 preemptions",
    }


def _launch(journey: Journey, place: TrainingWorld, store: ObjectStore, project: Path, own: Path) -> str:
    """Launches with `costguard launch`, as it stands in the guide. Returns the job's id."""
    variables = {**ALONE, **store.variables()}
    options = [word.replace("{vm}", str(own)) for word in journey.options]
    done = subprocess.run(
        [
            _COSTGUARD, "launch", "t4", "--name", journey.title,
            "--workdir", str(project), "--setup", f"python -m compileall -q . && echo ready > {own}/set-up",
            *options,
            *[word for name, value in variables.items() for word in ("--env", f"{name}={value}")],
            "--owner", OWNER, "--json",
            "--", *[word.replace("{vm}", str(own)) for word in journey.command],
        ],
        env={**os.environ, "COSTGUARD_URL": place.url, "COSTGUARD_TOKEN": guard_process.TOKEN},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"costguard launch: {done.stdout}{done.stderr}"
    return str(json.loads(done.stdout)["job"]["id"])


def _is_gone(vm: VM) -> bool:
    return vm.status not in _UP


def _is_preempted(place: TrainingWorld, job: str, times: int) -> bool:
    return bool(place.ask(f"jobs/{job}")["job"]["preemptions"] >= times)


class _Interrupter:
    """Takes a job's VMs away, one after the other. What holds a transfer of the next VM is there before that VM is."""

    def __init__(self, place: TrainingWorld, store: ObjectStore, job: str, result: JourneyRun) -> None:
        self._place, self._store, self._job, self._result = place, store, job, result

    def run(self, interruptions: Sequence[Interruption], first: Hold | None) -> None:
        hold = first
        for count, interruption in enumerate(interruptions, 1):
            self._reach(interruption, hold, count)
            following = interruptions[count] if count < len(interruptions) else None
            next_hold = None if following is None else _hold(self._store, following)
            (vm,) = self._place.up
            self._place.preempt()
            self._wait(partial(_is_gone, vm), "the VM is gone")
            self._wait(partial(_is_preempted, self._place, self._job, count), f"{count} preemptions are counted")
            if hold is not None:
                hold.released.set()
            hold = next_hold

    def _reach(self, interruption: Interruption, hold: Hold | None, count: int) -> None:
        if hold is not None:
            self._wait(hold.reached.is_set, f"a transfer is held {interruption.what}")
            self._result.moments.append(f"{interruption.what}: {hold.path}")
            # Nothing else is waited for here: the command trains on, and saves more than the transfer that is held.
            if shows := interruption.shows:
                self._wait(lambda: shows in page(self._place, self._job), f"the page shows {shows!r}")
                page(self._place, self._job, self._place.folder / f"page-{count}")
        else:
            path = self._place.folder / "vm" / "out" / interruption.part
            self._wait(path.exists, f"{interruption.part} is there")
            self._result.moments.append(f"{interruption.what}, as {interruption.part} was being saved")

    def _wait(self, until: Callable[[], object], what: str) -> None:
        """A job that is over gives up the wait: nothing of it will happen any more."""
        _wait(self._place, lambda: until() or self._is_over(), what)
        if self._is_over():
            job = self._place.ask(f"jobs/{self._job}")["job"]
            raise AssertionError(f"the job {job['state']} before {what}: {job['reason']}")

    def _is_over(self) -> bool:
        return self._place.ask(f"jobs/{self._job}")["job"]["state"] in _OVER


def _hold(store: ObjectStore, interruption: Interruption) -> Hold | None:
    one = interruption
    return store.hold(one.method, one.part, one.spared) if one.method else None


def _wait(place: TrainingWorld, until: Callable[[], object], what: str) -> None:
    """Longer than the ground itself waits: importing PyTorch takes a minute on a busy machine."""
    latest, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while time.monotonic() < latest:
        if until():
            return
        pause.wait(_LOOK_S)
    log = (place.folder / "guard.log").read_text()[-3000:]
    raise AssertionError(f"waited {_PATIENCE_S:g} s in vain until {what}\n{log}")


def _uninterrupted(journey: Journey, data: Path, folder: Path) -> str:
    """The digest of the weights that the same command leaves on this computer, run at once to its end."""
    folder.mkdir(parents=True)
    (folder / "data").symlink_to(data)
    words = [word.replace("{vm}", str(folder)) for word in journey.command[1:]]
    subprocess.run(
        [str(PYTHON), *words], cwd=journey.project, env={**os.environ, **ALONE}, check=True, capture_output=True
    )
    return _digest(folder / "model" / journey.model)


def _count(store: ObjectStore, method: str, prefix: str) -> dict[str, int]:
    """Counts how often each object's content went over the wire whole."""
    counts: dict[str, int] = {}
    for request in store.requests:
        size = request.sent if method == "PUT" else request.received
        is_ours = "/.costguard/" in request.path  # notes, not content
        if (
            request.method == method
            and request.path.startswith(prefix)
            and request.status < 300
            and size
            and not is_ours
        ):
            counts[request.path] = counts.get(request.path, 0) + 1
    return counts


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def variables_of_guard(store: ObjectStore) -> Mapping[str, str]:
    """The guard looks at buckets without the proxy, so that only what VMs transfer is held and counted."""
    return {**store.variables(), "AWS_ENDPOINT_URL": store.direct}
