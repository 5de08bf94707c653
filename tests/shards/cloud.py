"""The simulated cloud as a program of its own, and people who use it over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from tests.shards.judge import Request
from tests.shards.sides import Side, of_meter

ZONE = "us-central1-a"
CHANNEL = "gpu-costs"
PEOPLE = ("ana", "ben", "chiara")
_LONG = """
[[instance]]
project = "{project}"
zone = "us-central1-a"
name = "forgotten-{number}"
machine_type = "n1-standard-4"
gpu = "nvidia-tesla-t4"
owner = "{owner}"
creator = "{owner}@example.com"
labels = {{ kind = "long" }}
started = "20m ago"
"""
_LOCAL_VMS = """
[local_vms]
run = true
folder = "{folder}"
boot = "1s"
preemption_grace = "5s"
stop_grace = "5s"
docker = "shim"
"""


def scenario(projects: Sequence[str], forgotten: int, vms_folder: Path) -> str:
    """Returns the scenario's TOML: so many of the projects have a VM that has run for too long."""
    lines = [f'title = "Shards"\nprojects = {json.dumps(list(projects))}', _LOCAL_VMS.format(folder=vms_folder)]
    lines += [
        _LONG.format(project=project, number=number, owner=PEOPLE[number % len(PEOPLE)])
        for number, project in enumerate(projects[:forgotten])
    ]
    return "\n".join(lines)


@dataclass(slots=True)
class SimulatedCloud:
    """Lets people act in it under names of their own: its log tells them from Costguard's account."""

    url: str
    log: Path
    client: httpx2.Client

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def insert(self, project: str, body: Mapping[str, Any], person: str) -> None:
        self._call("POST", f"/compute/v1/projects/{project}/zones/{ZONE}/instances", person, body)

    def delete(self, project: str, zone: str, name: str, person: str) -> None:
        self._call("DELETE", f"/compute/v1/projects/{project}/zones/{zone}/instances/{name}", person)

    def preempt(self, project: str, name: str) -> None:
        event = {"event": "preempt", "project": project, "name": name}
        self._call("POST", "/sandbox/events", "google", event)

    def vms(self, project: str) -> list[dict[str, Any]]:
        """Lists the project's VMs as the API shows them."""
        return self._listed(project, "instances")

    def operations(self, project: str) -> list[dict[str, Any]]:
        return self._listed(project, "operations")

    def billed(self, operations: Sequence[Mapping[str, Any]]) -> dict[str, Side]:
        """Returns what each VM cost, with its disks and of these operations its own, by its number."""
        metered = self._call("GET", "/sandbox/meter", "meter")["instances"]
        return {one["id"]: of_meter(one, operations) for one in metered}

    def messages(self) -> list[dict[str, Any]]:
        """Lists every version of every message in Slack."""
        written: list[dict[str, Any]] = self._call("GET", "/sandbox/slack/messages", "slack")["written"]
        return written

    def requests(self) -> list[Request]:
        """Lists every request of before this moment, as the cloud wrote it down."""
        lines = self.log.read_bytes().split(b"\n")[:-1]  # the last one may be half written
        return [Request.of(json.loads(line)) for line in lines]

    def prepare_slack(self) -> None:
        self._call("POST", "/sandbox/slack/channels", "slack", {"name": CHANNEL})
        for name in PEOPLE:
            self._call("POST", "/sandbox/slack/people", "slack", {"name": name})

    def _listed(self, project: str, collection: str) -> list[dict[str, Any]]:
        path, listed, token = f"/compute/v1/projects/{project}/aggregated/{collection}", list[dict[str, Any]](), ""
        while True:
            page = self._call("GET", path + (f"?pageToken={token}" if token else ""), "people")
            listed += [one for scope in page.get("items", {}).values() for one in scope.get(collection, ())]
            if not (token := page.get("nextPageToken", "")):
                return listed

    def _call(self, method: str, path: str, person: str, body: Mapping[str, Any] | None = None) -> Any:
        who = {"x-sandbox-user": f"{person}@example.com"}
        answer = self.client.request(method, self.url + path, json=body, headers=who)
        answer.raise_for_status()
        return answer.json()


@contextmanager
def simulated_cloud(folder: Path, projects: Sequence[str], forgotten: int) -> Iterator[SimulatedCloud]:
    """Starts it, in real time; it ends with the block."""
    path, log = folder / "cloud.toml", folder / "requests.jsonl"
    path.write_text(scenario(projects, forgotten, folder / "vms"), "utf-8")
    options = ["--json", "--until-input-ends", "--requests", str(log)]
    command = [sys.executable, "-m", "costguard_sandbox", str(path), *options]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        httpx2.Client(timeout=60) as client,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            cloud = SimulatedCloud(json.loads(process.stdout.readline())["url"], log, client)
            cloud.prepare_slack()
            yield cloud
        finally:
            process.stdin.close()
