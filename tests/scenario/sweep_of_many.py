"""A sweep of 24 members with 10 preemptions in the simulated cloud, whose VMs really run: `make sweep`."""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.scenario.training_ground import OWNER, PROJECT, TrainingWorld, ground, uninterrupted

from costguard_sandbox.gce.vm import Status
from costguard_sandbox.scenarios import training

SEEDS, SIZES = 6, 4
PREEMPTIONS, AT_ONCE = 10, 4
STEPS, EVERY = 160, 10


def launched(place: TrainingWorld) -> str:
    """A grid of 24; each member saves in a folder of its own."""
    home = place.folder / "sweep"
    (home / "results").mkdir(parents=True)
    places = ["--checkpoints", f"{home}/{{width}}-{{seed}}", "--result", f"{home}/results/{{width}}-{{seed}}.json"]
    for width in range(SIZES):
        for seed in range(SEEDS):
            (home / f"{width}-{seed}").mkdir()
    job = {
        "preset": "t4",
        "owner": OWNER,
        "command": [sys.executable, training.__file__, *places, "--steps", str(STEPS), "--every", str(EVERY)],
        "environment": {"WIDTH": "{width}", "SEED": "{seed}"},
        "checkpoint": {
            "location": f"file://{home}/{{width}}-{{seed}}",
            "framework": "marker",
            "pattern": "step-{step}/",
            "marker": "DONE",
            "resume": "--from_checkpoint {checkpoint}",
        },
    }
    grid = {"width": list(range(SIZES)), "seed": list(range(SEEDS))}
    body = {"name": "many", "grid": grid, "at_once": AT_ONCE, "ceiling": "500", "job": job}
    return str(place.ask("sweeps", body, Idempotency_Key="sweep-1")["sweep"]["id"])


def preempt_some(place: TrainingWorld, sweep_id: str, chosen: random.Random) -> dict[str, Any]:
    """Preempts VMs whose member has saved something until so many were preempted and the sweep is over.

    Returns how it ended.
    """
    preempted: set[str] = set()
    pause = threading.Event()
    begun = time.monotonic()
    while True:
        sweep: dict[str, Any] = place.ask(f"sweeps/{sweep_id}")
        opened = [member for member in sweep["members"] if member["state"] in ("running", "provisioning", "recovering")]
        assert len(opened) <= AT_ONCE, opened
        if sweep["sweep"]["state"] != "running":
            return sweep
        assert time.monotonic() - begun < 900, sweep["sweep"]
        running = [vm for vm in place.up if vm.status is Status.RUNNING and vm.name not in preempted]
        chosen.shuffle(running)
        for vm in running:
            if len(preempted) < PREEMPTIONS and _has_saved(place, sweep, vm.name):
                place.world.preempt(PROJECT, vm.name)
                preempted.add(vm.name)
                break
        pause.wait(0.3)


def _has_saved(place: TrainingWorld, sweep: dict[str, Any], vm: str) -> bool:
    for member in sweep["members"]:
        if member["job"] is not None and f"-{member['job']}-" in vm:
            folder = place.folder / "sweep" / f"{member['parameters']['width']}-{member['parameters']['seed']}"
            saved = [int(step.name.removeprefix("step-")) for step in folder.iterdir() if (step / "DONE").exists()]
            return bool(saved) and max(saved) <= STEPS // 2  # later, it might end before its VM does
    return False


def check(place: TrainingWorld, sweep: dict[str, Any], expected: str) -> None:
    """All succeeded once, whatever happened, with the result of an uninterrupted training; nothing bills."""
    assert sweep["sweep"]["state"] == "succeeded", sweep["sweep"]
    assert [member["state"] for member in sweep["members"]] == ["succeeded"] * SEEDS * SIZES
    assert sum(member["preemptions"] for member in sweep["members"]) == PREEMPTIONS, sweep["members"]
    assert all(len(member["jobs"]) == 1 for member in sweep["members"])
    results = [path.read_text() for path in (place.folder / "sweep" / "results").iterdir()]
    assert results == [expected] * SEEDS * SIZES
    place.wait_until_nothing_bills()
    assert len(place.vms) == SEEDS * SIZES + PREEMPTIONS


def main() -> None:
    begun = time.monotonic()
    with TemporaryDirectory() as folder, ground(Path(folder), grace_s=1.0) as place:
        sweep_id = launched(place)
        sweep = preempt_some(place, sweep_id, random.Random(1))
        check(place, sweep, uninterrupted(Path(folder), "--steps", str(STEPS), "--every", str(EVERY)))
    cost, seconds = sweep["sweep"]["cost"]["amount"], time.monotonic() - begun
    print(
        f"{SEEDS * SIZES} members, {PREEMPTIONS} preemptions, {AT_ONCE} at once: all succeeded, "
        f"${cost}, in {seconds:.0f} s."
    )


if __name__ == "__main__":
    main()
