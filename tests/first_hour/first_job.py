"""A first job: a script from its folder, launched in the demo with what service/docs/jobs.md prints."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cli.printed import ROOT, commands_of
from tests.first_hour.machine import Machine, Typed, port_to_serve_at

DEMO = "costguard demo"  # what `make demo` runs
COMMANDS = (
    "costguard quote a100 --hours 20",
    "costguard launch a100 --workdir . --setup 'pip install -e .' -- python train.py",
    "costguard job JOB",
    "costguard output JOB",
)
_SCRIPT = """import time

loss = 4.0
for step in range(1, 41):
    time.sleep(0.2)
    loss *= 0.96
    print(f"step {step} loss {loss:.4f}", flush=True)
"""
_PROJECT = "[project]\nname = 'bert'\nversion = '1'\n[tool.setuptools]\npy-modules = ['train']\n"
_OVER = frozenset({"succeeded", "failed", "cancelled"})
_LONGEST_S = 300.0


def launch(folder: Path, programs: Path, registry: Mapping[str, str]) -> Sequence[Typed]:
    """Everything that was typed, in both terminals. The job must succeed."""
    printed = commands_of((ROOT / "service" / "docs" / "jobs.md").read_text("utf-8"))
    assert set(COMMANDS) <= set(printed)
    machine = Machine(folder, [programs])
    machine.environ |= registry
    work = machine.folder / "bert"
    work.mkdir()
    (work / "train.py").write_text(_SCRIPT)
    (work / "pyproject.toml").write_text(_PROJECT)
    typed: list[Typed] = []
    port = port_to_serve_at(8765)
    with machine.keeping(f"{DEMO} --listen 127.0.0.1:{port}" if port != 8765 else DEMO, "  costguard ps") as demo:
        typed.append(Typed(DEMO, demo.output, demo.code, demo.at_s, demo.took_s))
        (exported,) = re.findall(r"export (.+)", demo.output)
        machine.environ |= dict(part.split("=", 1) for part in exported.split())
        typed += [machine.now(f"export {exported}"), machine.now("cd bert")]
        machine.folder = work
        job = ""
        for command in COMMANDS:
            if "JOB" in command:
                _wait_for(machine, job)
            one = machine.type(command.replace("JOB", job))
            assert one.code == 0, f"{one.command}: {one.output}"
            print(f"{one.took_s:6.1f} s  {one.command}", flush=True)
            typed.append(one)
            match = re.search(r"\bj[0-9a-z]{7}\b", one.output)
            job = job or (match[0] if match else "")
    assert "step 40 " in typed[-1].output, typed[-1].output
    return typed


def _wait_for(machine: Machine, job: str) -> None:
    """Waits until the job is over; asks every two seconds."""
    pause, until = threading.Event(), time.monotonic() + _LONGEST_S
    while time.monotonic() < until:
        answer = json.loads(machine.type(f"costguard job {job} --json").output)
        if (state := answer["job"]["state"]) in _OVER:
            assert state == "succeeded", answer
            return
        pause.wait(2)
    raise AssertionError(f"{job} goes on")
