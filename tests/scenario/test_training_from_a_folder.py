"""A folder of a laptop becomes a job: its code in an image on each VM, prepared by a setup, and a preemption."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_work_directory import git, put
from tests.scenario import guard_process
from tests.scenario.training_ground import ground

from costguard.cli.job.code import sent
from costguard.cli.server import ServerClient

TRAIN = """
import pathlib, sys, time
place = pathlib.Path(sys.argv[1])
print(pathlib.Path("conf/small.txt").read_text(), (pathlib.Path.home() / "tool").read_text(), flush=True)
while not (place / "go").exists():
    time.sleep(0.05)
print("step 3")
"""


# Without an image, `make pipeline` proves the same with real trainers.
@pytest.mark.parametrize("image", ["acme/train:1"])
def test_code_of_a_folder_runs_on_every_vm(tmp_path: Path, image: str) -> None:
    """The command has what the setup left, on the VM and in the image alike; the second VM gets the same code and
    setup.
    """
    folder, shared = tmp_path / "project", tmp_path / "shared"
    shared.mkdir()
    put(folder, "train.py", TRAIN)
    put(folder, "conf/small.txt", "lr 0.1")
    git(folder, "init", "--quiet", "--initial-branch", "tuning")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    put(folder, "conf/small.txt", "lr 0.2")
    with ground(tmp_path, more_settings=f'code = "file://{tmp_path}/code"') as place:
        client = ServerClient(place.url, {"COSTGUARD_TOKEN": guard_process.TOKEN})
        code = sent(client, folder, lambda _: None)
        assert sent(client, folder, lambda _: None) == code, "it is uploaded once"
        request = {
            "preset": "t4",
            "owner": "ana@example.com",
            "command": ["python3", "train.py", str(shared)],
            "image": image,
            "mounts": [f"{shared}:{shared}"] if image else [],
            "code": code,
            "setup": "echo from the setup > ~/tool; echo prepared",
        }
        job = place.ask("jobs", request, Idempotency_Key="key-1")["job"]["id"]

        def runs(number: int) -> bool:
            attempts = place.ask(f"jobs/{job}")["attempts"]
            return len(attempts) == number and attempts[-1]["started_at"] is not None

        place.wait(lambda: runs(1), "the command runs")
        place.preempt()
        place.wait(lambda: runs(2), "the command runs on another VM")
        for target in [shared, *place.folder.glob(f"vms/*{shared}")]:
            (target / "go").touch()
        detail = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
    shown = detail["spec"]["code"]
    assert (shown["branch"], shown["commit"]) == ("tuning", git(folder, "rev-parse", "HEAD"))
    assert "+lr 0.2" in shown["diff"]
    last = detail["attempts"][-1]
    assert last["setup_seconds"] is not None
    assert [one["outcome"] for one in detail["attempts"]] == ["preempted", "succeeded"]
    assert len(list((tmp_path / "code").iterdir())) == 1
