"""Tables for terminals of any width and for pipes, and how their values are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from costguard.cli.options import print_json
from costguard.model.duration import elapsed, span_text
from costguard.model.money import Money, money_text, rate_text
from costguard.model.unseen import UNSEEN

NARROW = 120  # columns; below, values are written shorter
_UNLIMITED = 10_000
_GAP = 2  # between two columns in a terminal
_PROSE = 28  # columns of a terminal; narrower, sentences are hard to read
_UNSAFE = re.compile(f"[\t\n]|{UNSEEN.pattern}")

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    `value` is a key of the row, or a function of the row that returns its text, styled or plain. `right` aligns it to
    the right; `prose` lets it wrap at words. Where a table is too wide, columns with `spare` are left out, 1 first.
    """

    title: str
    value: str | Callable[[Any], object]
    right: bool = False
    prose: bool = False
    spare: int = 0

    def cell(self, row: Any) -> Text:
        shown = row[self.value] if isinstance(self.value, str) else self.value(row)
        return shown if isinstance(shown, Text) else cell(shown)


def console(file: TextIO | None = None) -> Console:
    """Makes a console. In a pipe it writes no colours, and cuts or wraps no line."""
    out = file or sys.stdout
    width = None if out.isatty() else _UNLIMITED
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def render(answer: Answer, as_json: bool, show: Callable[..., None], *more: object) -> None:
    """Prints the answer as JSON, or as `show` shows it: `show(console, answer, *more)`."""
    if as_json:
        print_json(answer)
    else:
        show(console(), answer, *more)


def show_table(console: Console, columns: Sequence[Column], rows: Iterable[Any], foot: Sequence[Text] = ()) -> None:
    """A table; where it does not fit, spare columns are left out, and named below it.

    Only prose is wrapped. Where the rest is still too wide each value has a line of its own: names and addresses are
    neither cut off nor broken.
    """
    cells = [[column.cell(row) for column in columns] for row in rows]
    body = [*cells, foot] if foot else cells
    needs = {column.title: _needed(column, [row[at] for row in body]) for at, column in enumerate(columns)}
    shown = _fitting(columns, needs, console.width)
    if _total(needs[column.title] for column in shown) > console.width:
        _show_lines(console, columns, body)
        return
    table = _empty(console)
    table.show_header = any(column.title.strip() for column in columns)
    for column in shown:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.prose,
            min_width=needs[column.title],
        )
    places = [columns.index(column) for column in shown]
    for row in cells:
        table.add_row(*(row[at] for at in places))
    if foot:
        table.add_section()
        table.add_row(*(foot[at] for at in places))
    console.print(table)
    if hidden := [column.title for column in columns if column not in shown and column.title.strip()]:
        say(console, f"Not shown, for want of width: {', '.join(hidden)}.", "dim")


def _show_lines(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
    """A line for each value. One with a word longer than a line is left to the terminal, which keeps it whole."""
    for number, row in enumerate(rows):
        if number:
            console.print()
        for column, value in zip(columns, row, strict=True):
            if not value.plain.strip():
                continue
            title = f"{column.title.strip()}: " if column.title.strip() else ""
            line = Text.assemble((title, "bold"), value)
            is_long = any(cell_len(word) > console.width for word in line.plain.split())
            console.print(line, soft_wrap=is_long or not column.prose)


def show_values(console: Console, values: Iterable[tuple[str, object]]) -> None:
    """Names and their values, a line each."""
    columns = (Column("", lambda pair: pair[0]), Column(" ", lambda pair: pair[1], prose=True))
    show_table(console, columns, values)


def show_page(
    console: Console, columns: Sequence[Column], answer: Answer, key: str, *, nothing: str, order: str = "latest"
) -> None:
    """The rows under a key of the answer, or `nothing`; then whether there are more."""
    rows = answer[key]
    if rows:
        show_table(console, columns, rows)
    else:
        say(console, nothing)
    if answer["next_cursor"] is not None:
        say(console, f"Shown: the {order} {len(rows)}. --limit 0 shows all.")


def nothing_fits(noun: str, is_filtered: bool, hint: str) -> str:
    """Returns the text in place of an empty table; where filters were given, it says how to see more."""
    return f"No {noun} fits. {hint}" if is_filtered else f"No {noun} is recorded yet."


def cell(value: object, style: str | Style = "") -> Text:
    """Text as it is: markup in it is not obeyed, and no control character is sent."""
    return Text(clean(value), style=style)


def say(console: Console, text: object, style: str = "") -> None:
    """Prints a line of prose, wrapped at words in a terminal only."""
    console.print(cell(text, style))


def say_price_note(console: Console, answer: Mapping[str, Any]) -> None:
    """Prints the age of shipped prices next to the figures that rest on them; servers of an earlier version
    give none.
    """
    if note := answer.get("price_note"):
        say(console, note, "yellow")


def _fitting(columns: Sequence[Column], needs: Mapping[str, int], width: int) -> list[Column]:
    spare = sorted((column for column in columns if column.spare), key=lambda column: column.spare)
    shown = {column.title for column in columns}
    for column in spare:
        if _total(needs[title] for title in shown) > width:
            shown.discard(column.title)
    for column in reversed(spare):  # leaving out a wide one may make room for a narrow one left out before it
        if _total(needs[title] for title in shown | {column.title}) <= width:
            shown.add(column.title)
    return [column for column in columns if column.title in shown]


def _needed(column: Column, texts: Sequence[Text]) -> int:
    widest = max((cell_len(text.plain) for text in texts), default=0)
    if column.prose:
        words = max((cell_len(word) for text in texts for word in text.plain.split()), default=0)
        widest = min(widest, max(words, _PROSE))
    return max(cell_len(column.title), widest)


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


def clean(text: object) -> str:
    """Names and labels come from outside: what would steer a terminal is shown instead of sent."""
    return _UNSAFE.sub(_escape, str(text))


def clean_lines(text: object) -> str:
    """The same for texts of several lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))


def dollars(amount: str, places: int = 2) -> str:
    return money_text(Money.of(amount), places)


def rate(amount: str) -> str:
    return rate_text(Money.of(amount))


def amount_text(amount: Mapping[str, Any], show: Any = dollars) -> str:
    """`unpriced` where nothing has a price, `$1.20 + ?` where something has none."""
    if amount["amount"] is None:
        return "unpriced"
    shown: str = show(amount["amount"])
    return shown if amount["complete"] else f"{shown} + ?"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ran(started: str, as_of: str) -> str:
    """Formats the time that a lifetime has run, in billed seconds."""
    return span_text(elapsed(moment(started), moment(as_of)))


def limit_text(as_of: str, due_at: str) -> str:
    """`over by 2 d 17 h`, `in 5 h`."""
    late = moment(as_of) - moment(due_at)
    return f"over by {span_text(late)}" if late > timedelta() else f"in {span_text(-late)}"


def when(text: str | None) -> str:
    """A moment to the second, in UTC: `2026-11-20 14:05:09`."""
    return "" if text is None else moment(text).strftime("%Y-%m-%d %H:%M:%S")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
