"""Collects the output of `--help` for every command, in a terminal of fixed width and without colours."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

import typer
from typer.core import TyperGroup

from costguard.cli.app import app

_WIDTH = "120"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def texts() -> Mapping[str, str]:
    command = typer.main.get_command(app)
    shown = []
    for path in _paths(command, ()):
        with redirect_stdout(io.StringIO()) as printed, _terminal():
            command.main([*path, "--help"], "costguard", standalone_mode=False)
        lines = [line.rstrip() for line in _COLOURS.sub("", printed.getvalue()).strip("\n").splitlines()]
        shown.append("\n".join([f"$ {' '.join(['costguard', *path, '--help'])}", *lines]))
    return {"help.txt": "\n\n".join(shown) + "\n"}


def _paths(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        for name, inner in sorted(command.commands.items()):
            yield from _paths(inner, (*path, name))


@contextmanager
def _terminal() -> Iterator[None]:
    """Rich reads the width from the environment."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
