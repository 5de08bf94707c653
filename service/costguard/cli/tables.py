"""Tables that a person likes to read: in a terminal, in a narrow one, and in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from costguard.cli.format import clean

NARROW = 120  # columns; below, values are written shorter
_UNLIMITED = 10_000
_GAP = 2  # between two columns in a terminal
_PROSE = 28  # columns of a terminal; narrower, sentences are hard to read

Row = Mapping[str, Text]


def console(file: TextIO | None = None) -> Console:
    """In a pipe: no colours, and no line is cut or wrapped."""
    out = file or sys.stdout
    width = None if out.isatty() else _UNLIMITED
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def show_table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Collection[str] = (),
    prose: Collection[str] = (),
    spare: Sequence[str] = (),
    foot: Row | None = None,
) -> None:
    """A table; where it does not fit, without as many of `spare` as are in the way, the first first. They are named.

    Only columns of `prose` are wrapped, at words. If all that may go is gone and the rest is still too wide, others
    are folded as well: nothing is ever cut off.
    """
    needs = {name: _needed(name, [*rows, foot] if foot else rows, name in prose) for name in columns}
    shown = _fitting(columns, needs, spare, console.width)
    hidden = [name for name in columns if name not in shown]
    made = _empty(console)
    made.show_header = any(name.strip() for name in columns)
    fits = _total(needs[each] for each in shown) <= console.width
    for name in shown:
        made.add_column(
            Text(name),
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=fits and name not in prose,
            min_width=needs[name] if fits else None,
        )
    for row in rows:
        made.add_row(*(row[name] for name in shown))
    if foot:
        made.add_section()
        made.add_row(*(foot[name] for name in shown))
    console.print(made)
    if hidden:
        say(console, f"Not shown, for want of width: {', '.join(hidden)}.", "dim")


def _fitting(columns: Sequence[str], needs: Mapping[str, int], spare: Sequence[str], width: int) -> list[str]:
    shown = set(columns)
    for name in spare:
        if _total(needs[each] for each in shown) > width:
            shown.discard(name)
    for name in reversed(spare):  # a wide one that had to go may leave room for a narrow one that went before it
        if name in columns and _total(needs[each] for each in shown | {name}) <= width:
            shown.add(name)
    return [name for name in columns if name in shown]


def _needed(name: str, rows: Sequence[Row], is_prose: bool) -> int:
    texts = [row[name] for row in rows]
    widest = max((cell_len(text.plain) for text in texts), default=0)
    if is_prose:
        words = max((cell_len(word) for text in texts for word in text.plain.split()), default=0)
        widest = min(widest, max(words, _PROSE))
    return max(cell_len(name), widest)


def _total(widths: Iterable[int]) -> int:
    return sum(width + _GAP for width in widths) - _GAP


def _empty(console: Console) -> Table:
    is_terminal = console.is_terminal
    return Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        pad_edge=False,
        show_edge=False,
        header_style="bold" if is_terminal else "",
        padding=(0, 1, 0, 0) if is_terminal else (0, _GAP, 0, 0),
    )


def cell(value: object, style: str | Style = "") -> Text:
    """Text as it is: no markup in it is obeyed, no control character is sent."""
    return Text(clean(value), style=style)


def say(console: Console, text: object, style: str = "") -> None:
    """One line of prose, wrapped at words in a terminal only."""
    console.print(cell(text, style))


def say_nothing(console: Console, noun: str, asked: bool, hint: str) -> None:
    """Nothing to show is a sentence, and says how to find what there is when something was asked for."""
    say(console, f"No {noun} fits. {hint}" if asked else f"No {noun} is recorded yet.")
