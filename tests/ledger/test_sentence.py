"""Reasons that stand by themselves."""

from __future__ import annotations

import pytest

from costguard.ledger.narrate import sentence


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("runs in us-central1-a", "Runs in us-central1-a."),
        ("It is up.", "It is up."),
        ("ada@lab.example cancels it", "ada@lab.example cancels it."),
        ("us-central1-a could not be read", "us-central1-a could not be read."),
        ("", ""),
    ],
)
def test_a_clause_becomes_a_sentence(clause: str, expected: str) -> None:
    """The sentence has a capital and a full stop, unless it begins with a name; a sentence stays as it is."""
    assert sentence(clause) == expected
