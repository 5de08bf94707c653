"""The best checkpoint of a job is its result: a real guard, VMs that really run, a preemption, and a guard killed."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
from tests.scenario.training_ground import OWNER, ground

# Saves three checkpoints from where it resumes, of which step 20 is the best, and waits for a word between two.
TRAIN = """
import pathlib, shutil, sys, time
out, words = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
begin = int(sys.argv[5]) if len(sys.argv) > 5 else 0
for place in out.glob("step-*"):  # simulated VMs share their disks, as real ones do not
    if place.name != f"step-{begin}":
        shutil.rmtree(place)
for step in range(begin + 10, begin + 40, 10):
    place = out / f"step-{step}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_text(f"weights of {step}")
    (place / "DONE").touch()
    print(f"step {step} val_loss {abs(step - 20) + 1}", flush=True)
while not (words / f"go-{begin}").exists():
    time.sleep(0.05)
"""


@pytest.mark.long
def test_best_checkpoint_of_two_vms_is_published_once(tmp_path: Path) -> None:
    """The first VM saved it and was preempted; the second publishes it, while the guard is killed."""
    words, run, to = tmp_path / "words", tmp_path / "run", tmp_path / "models/bert"
    words.mkdir()
    run.mkdir()
    # The suite's own folder can lie under /dev/shm, and /dev is the VM's.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as out, ground(tmp_path) as place:
        request = {
            "preset": "t4",
            "owner": OWNER,
            "command": [sys.executable, "-u", "-c", TRAIN, out, str(words)],
            "checkpoint": {
                "location": f"file://{run}",
                "local": out,
                "framework": "marker",
                "pattern": "step-{step}/",
                "marker": "DONE",
                "keep": 1,
                "resume": "--from {checkpoint} {step}",
                "publish_to": f"file://{to}",
            },
            "metric": {"pattern": r"val_loss (\S+)", "better": "lower"},
        }
        job = place.ask("jobs", request, Idempotency_Key="key-1")["job"]["id"]
        note = run / ".costguard/best.json"
        saved = (run / "step-20/DONE", run / "step-30/DONE", note)
        place.wait(lambda: all(path.exists() for path in saved), "the best and the newest are saved")
        place.wait(lambda: "step-20" in note.read_text(), "the best is noted")
        place.preempt()
        place.wait(lambda: (run / "step-60/DONE").exists(), "the second VM goes on from step 30")
        (words / "go-30").touch()
        place.kill()
        detail = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
    marker = json.loads((to / "_SUCCESS").read_text())
    assert (marker["job"], marker["step"], marker["chosen"], marker["metric"]["value"]) == (job, 20, "best", 1.0)
    assert (to / "weights").read_text() == "weights of 20"
    assert sorted(path.name for path in to.iterdir() if path.is_file()) == ["DONE", "_SUCCESS", "weights"]
    (sent,) = (one for one in detail["attempts"][-1]["transfers"] if one["kind"] == "result")
    assert (sent["state"], sent["note"]) == ("done", "step 20, the best: its metric is 1.0")
    assert [one["outcome"] for one in detail["attempts"]] == ["preempted", "succeeded"]
