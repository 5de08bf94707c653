"""The gangs' part of the page of real trainers, and how it is put there."""

from __future__ import annotations

import re

from tests.trainers.gangs.kills import KINDS
from tests.trainers.gangs.report import HEAD, kept, rows
from tests.trainers.gangs.verdicts import GangTally
from tests.trainers.report import PAGE


def _numbers(line: str) -> list[int]:
    return [int(cell) for cell in re.findall(r"\| *([0-9]+) *(?=\|)", line)]


def test_the_page_shows_gangs_of_each_kind_and_no_wrong_choice() -> None:
    """Every layout was killed, each kill was judged right, and the sum is that of the rows."""
    part = kept(PAGE.read_text())
    *lines, total = [line for line in part.splitlines() if line.startswith("| ") and _numbers(line)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [kind.title for kind in KINDS]
    assert _numbers(total) == [sum(column) for column in zip(*map(_numbers, lines), strict=True)]
    kills, right, _, torn, named, wrong = _numbers(total)
    assert kills == right >= 60
    assert torn * 2 >= kills
    assert named > 0
    assert wrong == 0


def test_a_wrong_choice_of_a_gang_is_counted() -> None:
    """The count is in its gang's row and in the sum."""
    tallies = [GangTally(KINDS[0], 4, 3, wrong=["chose a torn one"]), GangTally(KINDS[1], 6, 6)]
    assert rows(tallies)[-1] == ("All", "10", "9", "0", "0", "0", "1")


def test_the_rest_of_the_page_is_written_without_the_gangs_part() -> None:
    """Either part is kept when the other is written."""
    assert kept(f"# Trainers\n\ntext\n\n{HEAD}\n\nmore\n") == f"\n{HEAD}\n\nmore\n"
    assert kept("# Trainers\n") == ""
