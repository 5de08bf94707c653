"""Who may do what to whose VMs."""

from __future__ import annotations

import pytest

from costguard.errors import NobodyNamed, NotTheirName
from costguard.model.access import PERMISSIONS, Principal, Role, Via
from costguard.model.reminder import Asked, Team
from costguard.policy.access import Actor, actor, refusal, role_of
from costguard.policy.rules import Access

ANA, BEN, OP, LEAD, ROOT = (f"{name}@example.com" for name in ("ana", "ben", "op", "lead", "root"))
ACCESS = Access(frozenset({"@example.com"}), frozenset({OP, "@ops.example.com"}), frozenset({ROOT}))
VISION = Team("vision", frozenset({ANA}), frozenset({LEAD}))
MANAGED = Team("managed", frozenset({ANA, OP}))


def may(asked: Asked, by: str, owner: str = ANA, team: Team | None = None) -> bool:
    return refusal(asked, by, "debug-ana", owner, team, ACCESS) is None


@pytest.mark.parametrize(
    ("address", "role"),
    [
        ("Root@Example.com", Role.ADMIN),
        (OP, Role.OPERATOR),
        ("x@ops.example.com", Role.OPERATOR),
        (ANA, Role.VIEWER),
        ("ana@evil-example.com", Role.NOBODY),
        ("example.com", Role.NOBODY),
        ("", Role.NOBODY),
    ],
)
def test_roles(address: str, role: Role) -> None:
    """The highest list with the address or its whole domain, whatever its case."""
    assert role_of(address, ACCESS) is role


@pytest.mark.parametrize("asked", [Asked.STOP, Asked.SUSPEND, Asked.KEEP, Asked.DISOWN])
def test_whose_vm_it_is_decides(asked: Asked) -> None:
    """The owner, the team's operators, operators within their team, for nobody's of no team any of them, and admins."""
    assert may(asked, ANA)
    assert may(asked, "Ana@Example.com")
    assert not may(asked, BEN)
    assert not may(asked, OP)
    assert may(asked, OP, owner="")
    assert not may(asked, OP, owner="", team=VISION)
    assert not may(asked, OP, team=VISION)
    assert may(asked, OP, team=MANAGED)
    assert may(asked, LEAD, team=VISION)
    assert not may(asked, LEAD)
    assert may(asked, ROOT, team=VISION)
    assert not may(asked, BEN, owner="")
    assert not may(asked, "", owner="")


def test_claims() -> None:
    """Anybody may claim what is nobody's; from somebody else only those who may act for it."""
    assert may(Asked.CLAIM, BEN, owner="")
    assert may(Asked.CLAIM, ANA)
    assert not may(Asked.CLAIM, BEN)
    assert not may(Asked.CLAIM, OP)
    assert may(Asked.CLAIM, OP, team=MANAGED)
    assert not may(Asked.CLAIM, "", owner="")


def test_refusals_say_who_may() -> None:
    """In a sentence that names the VM, its owner and its team."""

    def told(asked: Asked, owner: str, team: Team | None, by: str = BEN) -> str | None:
        return refusal(asked, by, "debug-ana", owner, team, ACCESS)

    assert told(Asked.STOP, ANA, VISION) == (
        "Only ana@example.com, an operator of team vision or an admin can stop debug-ana."
    )
    assert told(Asked.KEEP, "", None) == "Only an operator or an admin can keep debug-ana."
    assert told(Asked.CLAIM, ANA, None) == "Only an admin can take over debug-ana from ana@example.com."
    assert told(Asked.STOP, ANA, None) == "Only ana@example.com or an admin can stop debug-ana."
    assert told(Asked.STOP, ANA, None, by="") == "Slack tells no e-mail address of yours, so you cannot stop debug-ana."


def test_in_whose_name_somebody_acts() -> None:
    """Their own, with the role that was granted to them; another's only as an admin, with that other's role then."""

    def who(address: str, role: Role, is_granted: bool = False) -> Principal:
        return Principal(address, role, PERMISSIONS[role], Via.TOKEN, is_granted=is_granted)

    master = Principal("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)
    assert actor(who(ANA, Role.OPERATOR)) == Actor(ANA)
    assert actor(who(ANA, Role.OPERATOR, is_granted=True), " Ana@Example.com ") == Actor(ANA, Role.OPERATOR)
    assert actor(who(ROOT, Role.ADMIN, is_granted=True), ANA) == actor(master, ANA) == Actor(ANA)
    with pytest.raises(NotTheirName):
        actor(who(OP, Role.OPERATOR), ANA)
    with pytest.raises(NobodyNamed):
        actor(master)
    assert refusal(Asked.STOP, BEN, "debug-ana", ANA, VISION, ACCESS, Role.ADMIN) is None
    assert refusal(Asked.STOP, ROOT, "debug-ana", ANA, VISION, ACCESS, Role.VIEWER) is not None
