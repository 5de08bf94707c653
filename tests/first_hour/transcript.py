"""Writes what a person typed and read as a page: neutral, and cut by one rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from tests.first_hour.machine import Typed

LONGEST, HEAD, TAIL = 14, 9, 3  # lines of an answer; of a longer one the first and the last
WIDEST = 150
CUT = re.compile(r"^\[\.\.\. (\d+) lines\]$")


@dataclass(frozen=True, slots=True)
class Step:
    """A typed command, and what the person understood: one or two sentences."""

    typed: Typed
    understood: str


def shown(output: str, neutral: Mapping[str, str]) -> list[str]:
    """The lines of an answer. `neutral` replaces patterns by words."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for pattern, word in neutral.items():
        text = re.sub(pattern, word, text)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line if len(line) <= WIDEST else f"{line[: WIDEST - 4].rstrip()} ..." for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) <= LONGEST:
        return lines
    return [*lines[:HEAD], f"[... {len(lines) - HEAD - TAIL} lines]", *lines[-TAIL:]]


def section_of(steps: Sequence[Step], neutral: Mapping[str, str]) -> str:
    """Each command with its moment and answer, and what was understood."""
    parts = []
    for step in steps:
        command = step.typed.command
        for pattern, word in neutral.items():
            command = re.sub(pattern, word, command)
        lines = [f"$ {command}", *shown(step.typed.output, neutral)]
        code = f", and ended with {step.typed.code}" if step.typed.code else ""
        when = f"After {_span(step.typed.at_s)}; it took {_span(step.typed.took_s)}{code}."
        parts.append("\n".join((when, "", "```console", *lines, "```", "", step.understood, "")))
    return "\n".join(parts)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def page(watcher: str, launcher: str, day: date, took: Mapping[str, float], gcloud: str) -> str:
    """The whole page."""
    spans = {name: _span(seconds) for name, seconds in took.items()}
    return f"""# Two first hours

<!-- Written by `make first-hour`. -->

Two people who know Google Cloud and have never seen Costguard, each with the documents open and an empty
computer: a new home folder, no variables, no credentials. What they type is what the documents print, taken
from their text by a script, and what they read is the real answer. The simulated cloud stands for Google, and
{gcloud} talks to it: the project is new there, nothing is granted in it, and every call needs its permission.
Nobody thinks or waits here: the times are those of the commands alone, on {day.day} {day:%B %Y}, on a computer
with much other work.

Of an answer with more than {LONGEST} lines the first {HEAD} and the last {TAIL} are shown, and a line says
how many are left out; lines end after {WIDEST} characters. Addresses, codes, tokens and folders are replaced
by words.

## One who only watches

Leads a team of three with one project, `acme-training`. Some T4s have been running for days, and the bill
comes at the end of the month. Follows the [README](../../README.md#watch-your-project-in-shadow-mode).
{spans["watcher"]} from the first command to the end of the last, most of it the installation.

{watcher}
## One who launches a first job

Has a script that trains, in a folder of its own, and no wish to learn about preemption. Starts the
[demo](../../README.md#try-it), then follows [Train on Spot](jobs.md#code-and-a-setup) in a second terminal.
{spans["launcher"]} from the first command to the end of the last.

{launcher}"""
