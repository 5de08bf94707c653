"""Shows planted faults: a line each, and the page service/docs/mutants.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.mutants.faults import ROOT
from tests.mutants.planting import Caught, Result

PAGE = ROOT / "service/docs/mutants.md"
_HEAD = """# Deliberate faults

`make mutants` plants each of these faults in a copy of the tree and runs the test that must fail. The faults are data
in `tests/mutants/faults`; a test checks that each still fits the source.
"""


def line(result: Result) -> str:
    fault = result.fault
    return f"{result.caught:<9}{result.seconds:6.1f} s  {fault.room:<12} {fault.what} [{fault.test}]"


def write(results: Sequence[Result], minutes: float, page: Path = PAGE) -> None:
    """Writes the date, how many were caught, by room, and each fault that was not."""
    rooms = list(dict.fromkeys(result.fault.room for result in results))
    today = datetime.now(UTC)  # noqa: TID251 - the date of today
    parts = [_HEAD, f"Last run: {today:%d %B %Y}, **{_count(results)}**, in {minutes:.0f} minutes.\n"]
    parts += ["| Room | Caught |", "|---|---|"]
    parts += [f"| {room} | {_count([result for result in results if result.fault.room == room])} |" for room in rooms]
    if missed := [result for result in results if result.caught is not Caught.YES]:
        parts += ["\n## Not caught\n", "| Fault | Test | What happened |", "|---|---|---|"]
        parts += [f"| {one.fault.what} | `{one.fault.test.removeprefix('tests/')}` | {one.caught} |" for one in missed]
    page.write_text("\n".join(parts) + "\n")


def _count(results: Sequence[Result]) -> str:
    return f"{sum(result.caught is Caught.YES for result in results)} of {len(results)} caught"
