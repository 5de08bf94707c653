"""The page that `make trainers` wrote last, and how its table is made."""

from __future__ import annotations

import re

from tests.trainers.gangs.report import HEAD
from tests.trainers.kills import KINDS, Tally
from tests.trainers.report import PAGE, rows, table


def _numbers(line: str) -> list[int]:
    return [int(cell) for cell in re.findall(r"\| *([0-9]+) *(?=\|)", line)]


def test_the_page_shows_a_hundred_kills_and_no_wrong_choice() -> None:
    """The kills are at least half within a save, of every trainer that is tried, and the sum is that of the rows."""
    page = PAGE.read_text().partition(HEAD)[0]
    lines = [line for line in page.splitlines() if line.startswith("| ") and _numbers(line)]
    *rows, total = lines
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == [kind.title for kind in KINDS]
    assert _numbers(total) == [sum(column) for column in zip(*map(_numbers, rows), strict=True)]
    kills, in_saves, right, _, torn, wrong = _numbers(total)
    assert kills == right >= 100
    assert in_saves * 2 >= kills
    assert torn > 0
    assert wrong == 0


def test_the_page_tells_of_the_script_under_the_guard() -> None:
    """Preempted twice, finished, and equal in its weights; and with which versions that was."""
    text = " ".join(PAGE.read_text().split())
    assert "Attempts: preempted, preempted, succeeded" in text
    assert "The final weights equal those of an uninterrupted run." in text
    for name in ("torch", "transformers", "lightning", "orbax-checkpoint", "keras"):
        assert re.search(rf"{name} [0-9]+\.[0-9]+", text), name


def test_a_wrong_choice_is_counted() -> None:
    """The count is in its trainer's row and in the sum."""
    tallies = [Tally(KINDS[0], 4, 2, 3, 1, 1, ["chose a torn one"]), Tally(KINDS[1], 6, 3, 6, 0, 2)]
    assert rows(tallies)[-1] == ("All", "10", "5", "9", "3", "1", "1")
    assert table(tallies).splitlines()[1].split()[-1] == "1"
