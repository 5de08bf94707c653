"""Numbers and amounts in sentences: one attempt is no "1 attempts", and less than a cent is not "about <$0.01"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import costguard
from costguard.model.money import Money, about_text, money_text

SOURCES = sorted(Path(costguard.__file__).parent.rglob("*.py"))
_COUNTED = "attempts|checkpoints|events|interruptions|jobs|rows|runs|steps|tables|VMs"
_PLURAL = re.compile(rf"\{{([^{{}}]+)\}} (?:{_COUNTED})\b")
_NEVER_ONE = {  # behind a test for one, bounded, a count of none, or the subject of "runs"
    "MOST_MEMBERS", "_PREEMPTIONS", "attempt.follows", "attempt.zone", "disks['count']", "job.title", "len(failed)",
    "len(loose)", "many", "spec.nodes", "spec.vm_count", "wanted.runs",
}  # fmt: skip
_ABOUT = re.compile(r"\babout \{([^{}]+)\}")
_NO_AMOUNT = {"amount", "came", "likely", "name", "vm.name"}


@pytest.mark.parametrize(
    ("amount", "text"), [("41.2", "about $41.20"), ("0.004", "less than $0.01"), ("0", "about $0.00")]
)
def test_an_estimate_in_words(amount: str, text: str) -> None:
    """Less than a cent is not "about" anything."""
    assert about_text(money_text(Money.of(amount))) == text


def test_counts_that_may_be_one_are_counted_in_words() -> None:
    """`count_text` knows the singular. What is never one is listed here by its expression."""
    unworded = {
        (path.name, one[1])
        for path in SOURCES
        for one in _PLURAL.finditer(path.read_text())
        if one[1] not in _NEVER_ONE and ":," not in one[1]
    }
    assert unworded == set()


def test_amounts_are_never_about_less_than_something() -> None:
    """`about_text` words them; what is no amount is listed here by its expression."""
    unworded = {
        (path.name, one[1]) for path in SOURCES for one in _ABOUT.finditer(path.read_text()) if one[1] not in _NO_AMOUNT
    }
    assert unworded == set()
