"""Tables that a person likes to read: in a terminal, in a narrow one, and in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from costguard.cli.format import clean

NARROW = 120  # columns; below, tables give up what can be seen elsewhere
_UNLIMITED = 10_000


def console(file: TextIO | None = None) -> Console:
    """In a pipe: no colours, and no line is cut or wrapped."""
    out = file or sys.stdout
    width = None if out.isatty() else _UNLIMITED
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def table(console: Console, columns: Sequence[str], *, right: Sequence[str] = ()) -> Table:
    is_terminal = console.is_terminal
    made = Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        pad_edge=False,
        show_edge=False,
        header_style="bold" if is_terminal else "",
        padding=(0, 2, 0, 0) if not is_terminal else (0, 1),
    )
    for name in columns:
        made.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    return made


def cell(value: object, style: str = "") -> Text:
    """Text as it is: no markup in it is obeyed, no control character is sent."""
    return Text(clean(value), style=style)


def say(console: Console, text: object, style: str = "") -> None:
    """One line of prose, wrapped at words in a terminal only."""
    console.print(cell(text, style))
