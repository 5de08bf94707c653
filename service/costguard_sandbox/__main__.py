"""`python -m costguard_sandbox [SCENARIO]`: the simulated cloud as a program of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.guest.local import CannotRunGuests
from costguard_sandbox.scenarios.keys import ScenarioError
from costguard_sandbox.scenarios.scenario import build, load, shipped
from costguard_sandbox.scenarios.vms import default_local_vms
from costguard_sandbox.server import serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; 2 when the scenario is wrong or the port is taken."""
    parser = argparse.ArgumentParser(
        prog="costguard sandbox", description="A simulated Compute Engine and Slack, with their own prices and meter."
    )
    parser.add_argument(
        "scenario", nargs="?", default="demo", help=f"a TOML file, or one of: {', '.join(shipped())} (default: demo)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: this computer only)")
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per real second (default: 1)")
    parser.add_argument("--run-vms", action="store_true", help="run VMs with a startup script as local processes")
    parser.add_argument(
        "--vms-folder", type=Path, metavar="DIR", help="where VMs have their directories; implies --run-vms"
    )
    parser.add_argument("--json", action="store_true", help="print the address as one line of JSON")
    parser.add_argument("--until-input-ends", action="store_true", help="end when standard input is closed")
    parser.add_argument(
        "--requests", type=Path, metavar="FILE", help="append a line of JSON for each request to this file"
    )
    wanted = parser.parse_args(arguments)
    if wanted.speed <= 0:
        parser.error("--speed must be above 0")
    if not 0 <= wanted.port <= 65535:
        parser.error("--port must be from 0 to 65535")
    try:
        scenario = load(wanted.scenario)
    except ScenarioError as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 2
    if wanted.run_vms or wanted.vms_folder:
        local_vms = scenario.local_vms or default_local_vms()
        local_vms = replace(local_vms, folder=wanted.vms_folder or local_vms.folder, pace=wanted.speed)
        scenario = replace(scenario, local_vms=local_vms, runs_vms=True)
    try:
        world = build(scenario, ScaledClock(speed=wanted.speed))
    except CannotRunGuests as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 2

    def announce(url: str) -> None:
        where = {"title": scenario.title, "url": url, "projects": list(scenario.projects)}
        text = f"{scenario.title}: {url} (projects {', '.join(scenario.projects)}). Ctrl-C ends it."
        sys.stdout.write(f"{json.dumps(where) if wanted.json else text}\n")
        sys.stdout.flush()

    until_ends = sys.stdin if wanted.until_input_ends else None
    try:
        with wanted.requests.open("ab") if wanted.requests else nullcontext() as requests:
            serve(world, wanted.host, wanted.port, announce, until_ends, requests)
    except OSError as error:
        if error.filename is not None:
            sys.stderr.write(f"cannot write to {error.filename}: {error.strerror}\n")
        else:
            sys.stderr.write(f"cannot listen on {wanted.host}:{wanted.port}: {error.strerror}; try --port 0\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
