"""Preempts VMs with real agents in real seconds, with a notice of 120 s and without: run as a module.

Each command saves for 60 s once it gets SIGTERM. Google's part is its page "Spot VMs": the announcement, the soft-off
after the notice, and the power cut 30 s after that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.agent.fake_guard import guard_at_a_port
from tests.agent.fake_metadata import metadata_server
from tests.agent.vm import Vm

from costguard_vm.bundle import bundle

NOTICE_S, SHUTDOWN_S, SAVE_S = 120.0, 30.0, 60
_TRAINS = f"""
import os, pathlib, signal, sys, time
wanted, step = [], 0
def save():
    with open("saving", "w") as file:
        for second in range({SAVE_S}):
            time.sleep(1)
            file.write(f"{{second}}\\n")
        file.write(f"step {{step}}\\n")
    os.replace("saving", "checkpoint")
    sys.exit(0)
signal.signal(signal.SIGTERM, lambda *_: wanted.append(1))
pathlib.Path("began").touch()
while not wanted:
    time.sleep(0.2)
    step += 1
    pathlib.Path("step").write_text(str(step))
save()
"""


def preempted(folder: Path, agent: Path, notice_s: float, lot: Random) -> tuple[int | None, bool]:
    """Returns how many steps the save lacks, None where it was not complete when the power was cut, and whether the
    guard had heard of the end.
    """
    folder.mkdir()
    with guard_at_a_port() as (guard, listener), metadata_server() as metadata:
        listener.listen()
        vm = Vm(folder, agent, metadata, guard)
        try:
            return _preempted(vm, notice_s, lot), "exit" in guard.kinds()
        finally:
            vm.close()


def _preempted(vm: Vm, notice_s: float, lot: Random) -> int | None:
    # The pace of a real agent; all else is its default, as in production.
    vm.train(_TRAINS, heartbeat_s=15.0, poll_s=0.5, notice_s=notice_s, notice_grace_s=22.0)
    vm.boot()
    while not (vm.work / "began").exists():
        time.sleep(1)  # noqa: TID251 - until it trains
    time.sleep(lot.uniform(1, 20))  # noqa: TID251 - it trains
    vm.metadata.set("instance/preempted", "TRUE")
    time.sleep(notice_s)  # noqa: TID251 - Google's time
    vm.agents[-1].send_signal(signal.SIGTERM)
    time.sleep(SHUTDOWN_S)  # noqa: TID251 - Google's time
    _cut(vm)
    if not (vm.work / "checkpoint").exists():
        return None
    saved = int((vm.work / "checkpoint").read_text().rpartition("step ")[2])
    return int((vm.work / "step").read_text()) - saved


def _cut(vm: Vm) -> None:
    vm.crash()
    for run in vm.run_folders():
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.killpg(json.loads((run / "command.json").read_text())["pid"], signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trainers.noticed", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="of each kind")
    parser.add_argument("--at-once", type=int, default=10)
    given = parser.parse_args()
    kills = given.kills
    lots = Random(1)
    with tempfile.TemporaryDirectory(prefix="costguard-noticed-") as home, ThreadPoolExecutor(given.at_once) as pool:
        agent = Path(home) / "agent.pyz"
        agent.write_bytes(bundle())
        right = True
        for notice_s, wanted in ((NOTICE_S, kills), (0.0, 0)):
            folders = [Path(home) / f"{notice_s:.0f}-{number}" for number in range(kills)]
            begun = [pool.submit(preempted, folder, agent, notice_s, Random(lots.random())) for folder in folders]
            ended = [one.result() for one in begun]
            lacks = [one[0] for one in ended if one[0] is not None]
            saved, noticed = len(lacks), sum(one[1] for one in ended)
            print(f"Notice of {notice_s:.0f} s: a save of {SAVE_S} s {saved} of {kills} times; {noticed} noticed;")
            print(f"it lacks one step at most {sum(steps <= 1 for steps in lacks)} times.")
            right = right and saved == wanted and all(steps <= 1 for steps in lacks)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
