"""Each VM has a team, and each budget a contact."""

from __future__ import annotations

from typing import Any

import pytest

from costguard.access.rules import Rules
from costguard.access.teams import channel_of, contact_of, team_of
from costguard.model.budget import Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team

VISION = Team("vision", frozenset({"ana@example.com"}), frozenset({"lead@example.com"}), channel="#vision")
SPEECH = Team("speech", frozenset({"ana@example.com", "ben@example.com"}), projects=frozenset({"speech-gpu"}))
TEAMS = (VISION, SPEECH)


@pytest.mark.parametrize(
    ("project", "owner", "expected"),
    [
        ("p", "Ana@Example.com", VISION),
        ("p", "lead@example.com", VISION),
        ("speech-gpu", "ana@example.com", SPEECH),
        ("speech-gpu", "lead@example.com", VISION),
        ("speech-gpu", "", SPEECH),
        ("speech-gpu", "guest@example.com", SPEECH),
        ("p", "", None),
        ("p", "guest@example.com", None),
    ],
)
def test_a_vm_is_of_its_owners_team(project: str, owner: str, expected: Team | None) -> None:
    """The owner's team goes before the project's; of several of theirs, the one with this project."""
    assert team_of(project, owner, TEAMS) is expected


def test_the_channel() -> None:
    """A team without a channel of its own, and a VM of no team, go to the channel for all."""
    rules = Rules(presets={}, channel="#gpu", teams=TEAMS)
    assert [channel_of(team, rules) for team in (VISION, SPEECH, None)] == ["#vision", "#gpu", "#gpu"]


def test_the_contact_is_the_narrowest_budgets() -> None:
    """The most parts of a scope win, then the file's order; a budget without a contact is passed over."""

    def budget(contact: str, **scope: Any) -> Budget:
        return Budget(contact, Scope(**scope), Money.of(1), Period.MONTH, contact=contact)

    budgets = (
        budget("all"),
        budget("", project="p", preset="t4", owner="ana@example.com"),
        budget("team", team="vision"),
        budget("t4", preset="t4"),
        budget("both", preset="a100", owner="Ana@example.com"),
    )
    rules = Rules(presets={}, contact="last", teams=TEAMS, budgets=budgets)
    assert contact_of("p", "t4", "ana@example.com", rules) == "team"
    assert contact_of("p", "t4", "", rules) == "t4"
    assert contact_of("p", "a100", "ana@example.com", rules) == "both"
    assert contact_of("p", "other", "ben@example.com", rules) == "all"
    assert contact_of("p", "t4", "", Rules(presets={}, contact="last")) == "last"
