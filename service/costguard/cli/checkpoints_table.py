"""Checkpoints as a table: newest first, each with its state and why."""

from __future__ import annotations

from rich.console import Console

from costguard.cli.format import count
from costguard.cli.tables import Row, cell, say, show_table
from costguard.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState

_COLUMNS = ("Step", "Checkpoint", "Framework", "State", "Written (UTC)", "Size", "Files", "Why")
_STYLES = {
    CheckpointState.COMPLETE: "green",
    CheckpointState.TORN: "bold red",
    CheckpointState.CHANGING: "yellow",
    CheckpointState.UNREAD: "dim",
}
_MOST_REASONS = 3
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def show(out: Console, found: CheckpointLook) -> None:
    if found.checkpoints:
        rows = [_row(one) for one in found.checkpoints]
        show_table(
            out, _COLUMNS, rows, right=("Step", "Size", "Files"), prose=("Why",), spare=("Files", "Framework", "Size")
        )
        out.print()
        unread = sum(one.state is CheckpointState.UNREAD for one in found.checkpoints)
        if unread:
            say(out, f"Not looked inside: {count(unread, 'older one')}. --all does.", "dim")
    for note in found.notes:
        say(out, note, "yellow")
    if found.resume is not None:
        step = "" if found.resume.step is None else f", step {found.resume.step:,}"
        say(out, f"Would be resumed from: {found.resume.resume_from}{step}", "bold")


def size_text(size: int) -> str:
    """`512 B`, `1.5 kB`, `13 GB`: powers of a thousand, as clouds bill."""
    shown, unit = float(size), 0
    while shown >= 999.5 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1000, unit + 1
    return f"{shown:.1f} {_UNITS[unit]}" if unit and shown < 9.95 else f"{shown:.0f} {_UNITS[unit]}"


def _row(one: Checkpoint) -> Row:
    more = len(one.reasons) - _MOST_REASONS
    why = " ".join(one.reasons[:_MOST_REASONS]) + (f" And {more} more." if more > 0 else "")
    return {
        "Step": cell("?" if one.step is None else f"{one.step:,}"),
        "Checkpoint": cell(one.name),
        "Framework": cell(one.framework),
        "State": cell(one.state, _STYLES[one.state]),
        "Written (UTC)": cell(f"{one.written_at:%Y-%m-%d %H:%M:%S}"),
        "Size": cell(size_text(one.size)),
        "Files": cell(one.files),
        "Why": cell(why),
    }
