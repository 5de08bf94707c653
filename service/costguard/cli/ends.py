"""`costguard read end`: why a run ended, or that it only looks dead, from what it printed."""

from __future__ import annotations

import json
from typing import TextIO

import typer

from costguard.cli.command_line import CommandLine
from costguard.cli.options import AsJson
from costguard.cli.progress import LogFile, opened
from costguard.cli.tables import console, say
from costguard.ends.reader import MOST_READ, read_end
from costguard.ends.words import end_words, retry_words

read = CommandLine(no_args_is_help=True, help="What files of your own say, without a server.")

_CHUNK = 1 << 20  # characters
_EXAMPLES = """Examples:

  costguard read end train.log

  journalctl -k -b -1 | costguard read end - --json
"""


def register(app: typer.Typer) -> None:
    app.add_typer(read, name="read")


@read.command("end", epilog=_EXAMPLES)
def end(file: LogFile, as_json: AsJson = False) -> None:
    """Say why a run ended, or that it only looks dead, from its output or a kernel's log.

    Knows what PyTorch, NCCL, CUDA, DeepSpeed, JAX, TensorFlow, launchers and the kernel print. The first error counts,
    not the last. What the log does not prove is unknown: silence is no end.
    """
    with opened(file) as source:
        reading = read_end(_last(source))
    if as_json:
        print(json.dumps(reading.as_json()))
        return
    say(console(), end_words(reading), "bold")
    say(console(), retry_words(reading))
    if reading.evidence:
        say(console(), reading.evidence, "dim")


def _last(source: TextIO) -> str:
    """The end of a file of any size, in bounded memory."""
    text = ""
    while chunk := source.read(_CHUNK):
        text = (text + chunk)[-MOST_READ:]
    return text
