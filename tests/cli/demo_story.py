"""The story of the shipped demo, asked of its server as a program would ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

from tests.sandbox.guest.served_vms import PATIENCE_S
from tests.waiting import until

from costguard.cli.server import ServerClient


@dataclass(frozen=True, slots=True)
class DemoStory:
    """Each part is waited for, however slow the machine: it comes, and stays to be seen."""

    environ: Mapping[str, str]
    cloud: str

    def is_played(self) -> None:
        for part in (self._sweep, self._bound, self._bill, self._pool, self._goodput, self._deadline, self._standstill):
            until(part, 2 * PATIENCE_S)

    def _get(self, *path: str, **query: Any) -> Any:
        return ServerClient(self.environ["COSTGUARD_URL"], self.environ).get(*path, **query)

    def job(self, name: str) -> str | None:
        """The id of a job; None before it was launched."""
        return next((str(job["id"]) for job in self._get("jobs", limit=50)["jobs"] if job["name"] == name), None)

    def _of_job(self, name: str, *more: str) -> dict[str, Any]:
        job_id = self.job(name)
        answer: dict[str, Any] = {} if job_id is None else self._get("jobs", job_id, *more)
        return answer

    def _sweep(self) -> bool:
        """The sweep's four members have run, never more than two at a time, and one of them has the best loss."""
        sweep = next(iter(self._get("sweeps")["sweeps"]), None)
        if sweep is None:
            return False
        members = self._get("sweeps", sweep["id"])["members"]
        assert sum(member["state"] in ("provisioning", "running") for member in members) <= 2
        best = [member["parameters"]["rate"] for member in members if member["is_best"]]
        return sweep["state"] == "succeeded" and best == ["1.0"]

    def _bound(self) -> bool:
        """The diagnosis says that its GPU has no kernel for most of the time, as measured."""
        held = self._of_job("slow-loader", "diagnosis").get("held")
        return held is not None and (held["bound"], held["cause"]) == ("input", "workers") and held["share"] > 0.5

    def _bill(self) -> bool:
        """The only day that differs is the one on which something was planted."""
        answer = self._get("bill", **{"from": "2020-01-01"})
        days = {day["state"]: day for day in answer["days"]}
        return "differs" in days and "agreed" in days and "unknown_vm" in json.dumps(answer["worst"])

    def _pool(self) -> bool:
        """A single reminder speaks of all nodes."""
        events = self._get("events", limit=500)["events"]
        return any("all 3 VMs of GKE cluster train (node pool t4)" in event["text"] for event in events)

    def _goodput(self) -> bool:
        total = self._get("goodput")["total"]
        return total["cost_per_useful_gpu_hour"] is not None and total["seconds"]["kept"] > 0

    def _deadline(self) -> bool:
        stored = self._of_job("before-the-meeting").get("plan") or {}
        return stored.get("plan") is not None and "Spot" in stored["plan"]["reason"]

    def _standstill(self) -> bool:
        """The job's page hints at it, and so does its owner's thread in Slack."""
        if (self._of_job("short-schedule").get("standstill") or {}).get("metric") != "eval_loss":
            return False
        with urlopen(f"{self.cloud}/sandbox/slack/messages", timeout=PATIENCE_S) as answer:
            return "stand still" in answer.read().decode()
