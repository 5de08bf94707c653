"""People at work while replicas are killed: they make and delete VMs, have VMs stopped, and launch Spot jobs."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
from tests.scenario.fleet import body
from tests.shards.cloud import PEOPLE, ZONE, SimulatedCloud
from tests.shards.replicas import Pair

from costguard_sandbox.scenarios import training

_MACHINES: Sequence[Mapping[str, Any]] = (
    {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    {"machine": "g2-standard-8"},
    {"machine": "n2-standard-4"},
    {"machine": "a2-highgpu-1g", "spot": True},
)
_APART_S = 3.0  # between two things that people do
_MOST_VMS = 120
_LIVES_S = 40.0  # at least, so that every VM is listed
_TRAINS_S = 45.0
_PREEMPTED_AFTER_S = 15.0
_JOBS_APART_S = 100.0


class People:
    """They act on a thread of their own until `end`. `happened` counts what they did."""

    def __init__(self, cloud: SimulatedCloud, pair: Pair, folder: Path, seed: int) -> None:
        self._cloud, self._pair, self._folder = cloud, pair, folder
        self._chance = random.Random(seed)
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="people")
        self._vms: dict[str, tuple[str, str, float]] = {}  # project, person, when it was made, by name
        self._stopped: set[str] = set()
        self.jobs: dict[str, int] = {}  # how often each one's VM was preempted
        self.taken_back: set[str] = set()  # VMs of which Google said that it takes them back
        self._running: dict[str, float] = {}  # jobs whose VM is to be preempted, and since when it runs
        self._next_job_s = 0.0
        self.happened: Counter[str] = Counter()
        self.stops: dict[str, str] = {}  # VMs by number whose stop was accepted, and their projects
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Raises what they stumbled over."""
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def leave(self) -> None:
        """Deletes every VM that is no job's."""
        for project in self._pair.projects:
            for vm in self._cloud.vms(project):
                if vm["status"] != "STOPPING" and "costguard-job" not in vm.get("labels", {}):
                    self._cloud.delete(project, vm["zone"].rpartition("/")[2], vm["name"], "ana")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str = "") -> Any:
        """Asks a replica that answers; a request that a kill cut off is sent again under its key."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            one = self._pair.one
            try:
                if one is not None:
                    answer = one.client.request(method, f"{one.url}/api/v1/{path}", json=body, headers=headers)
                    if answer.status_code < 500:
                        answer.raise_for_status()
                        return answer.json()
            except (httpx2.TransportError, RuntimeError):  # it was killed, and its client closed
                self.happened["requests cut off"] += 1
            threading.Event().wait(0.5)

    def _live(self) -> None:
        try:
            while not self._stop.wait(_APART_S * self._chance.uniform(0.5, 1.5)):
                self._something()
                self._see_to_jobs()
        except BaseException as error:  # reported by `end`
            self.error = error

    def _something(self) -> None:
        now = time.monotonic()
        grown = [name for name, (_, _, made) in self._vms.items() if now - made > _LIVES_S]
        if len(self._vms) < _MOST_VMS and (not grown or self._chance.random() < 0.55):
            self._create(now)
        elif self._chance.random() < 0.3 and (mine := [name for name in grown if name not in self._stopped]):
            self._have_stopped(self._chance.choice(mine))
        elif grown:
            name = self._chance.choice(grown)
            project, person, _ = self._vms.pop(name)
            if name not in self._stopped:  # what is being stopped cannot be deleted; `leave` does
                self._cloud.delete(project, ZONE, name, person)
                self.happened["VMs deleted by people"] += 1

    def _create(self, now: float) -> None:
        project, person = self._chance.choice(self._pair.projects), self._chance.choice(PEOPLE)
        name = f"vm-{next(self._numbers)}"
        labels = {"owner": person} | ({"kind": "long"} if self._chance.random() < 0.3 else {})
        self._cloud.insert(project, body(name, ZONE, **self._chance.choice(_MACHINES), labels=labels), person)
        self._vms[name] = (project, person, now)
        self.happened["VMs made by people"] += 1

    def _have_stopped(self, name: str) -> None:
        """Costguard is asked to stop it, as far as it knows it by now and no rule was faster."""
        project, person, _ = self._vms[name]
        vm = next((one for one in self._cloud.vms(project) if one["name"] == name), None)
        if vm is None or vm["status"] != "RUNNING":
            return
        self._stopped.add(name)
        request = {"by": f"{person}@example.com", "reason": "done for today"}
        try:
            self.ask("POST", f"instances/{project}/{vm['id']}/stop", request, key=f"stop-{name}")
        except httpx2.HTTPStatusError as refused:
            self.happened[f"stops refused: {refused.response.status_code}"] += 1
            return
        self.stops[vm["id"]] = project
        self.happened["VMs that people had stopped"] += 1

    def _see_to_jobs(self) -> None:
        """Launches one now and then, and takes the VM of each back once while it trains."""
        now = time.monotonic()
        if now >= self._next_job_s:
            self._next_job_s = now + _JOBS_APART_S
            self._launch()
        for job in [one for one, preempted in self.jobs.items() if not preempted]:
            shown = self.ask("GET", f"jobs/{job}")
            attempt = shown["attempts"][-1] if shown["attempts"] else None
            if attempt is None or attempt["state"] != "running":
                continue
            if now - self._running.setdefault(job, now) < _PREEMPTED_AFTER_S:
                continue
            try:
                self._cloud.preempt(shown["job"]["project"], attempt["name"])
            except httpx2.HTTPStatusError:  # it has just ended
                self.happened["preemptions that came too late"] += 1
                self._running[job] = float("inf")
                continue
            self.jobs[job] += 1
            self.taken_back.add(attempt["name"])
            self.happened["preemptions"] += 1

    def _launch(self) -> None:
        number = next(self._numbers)
        place = self._folder / f"job-{number}"
        place.mkdir()
        steps = int(_TRAINS_S / 0.5)
        command = [sys.executable, training.__file__, "--checkpoints", str(place), "--result", str(place / "result")]
        command += ["--steps", str(steps), "--every", "10", "--step-seconds", "0.5"]
        saved = {
            "location": f"file://{place}",
            "framework": "marker",
            "pattern": "step-{step}/",
            "marker": "DONE",
            "resume": "--from_checkpoint {checkpoint}",
        }
        project, owner = self._chance.choice(self._pair.projects), f"{self._chance.choice(PEOPLE)}@example.com"
        wanted = {"preset": "t4", "project": project, "owner": owner, "command": command, "checkpoint": saved}
        launched = self.ask("POST", "jobs", wanted, key=f"job-{number}")
        self.jobs[launched["job"]["id"]] = 0
        self.happened["jobs launched"] += 1
