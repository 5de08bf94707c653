"""Roles decide who may do what to whose VMs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costguard.access.roles import Actor, actor, permissions_of, refusal, role_for, role_of
from costguard.access.rules import Access
from costguard.errors import Forbidden, Invalid
from costguard.model.access import PERMISSIONS, Authority, Permission, Principal, Role, Via
from costguard.model.reminder import RequestKind, Team

ANA, BEN, OP, LEAD, ROOT = (f"{name}@example.com" for name in ("ana", "ben", "op", "lead", "root"))
ACCESS = Access(frozenset({"@example.com"}), frozenset({OP, "@ops.example.com"}), frozenset({ROOT}))
VISION = Team("vision", frozenset({ANA}), frozenset({LEAD}))
MANAGED = Team("managed", frozenset({ANA, OP}))


def may(kind: RequestKind, by: str, owner: str = ANA, team: Team | None = None) -> bool:
    return refusal(kind, by, "debug-ana", owner, team, ACCESS) is None


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


@pytest.mark.parametrize("kind", [RequestKind.STOP, RequestKind.KEEP, RequestKind.DISOWN])
def test_whose_vm_it_is_decides(kind: RequestKind) -> None:
    """The owner, the team's operators, operators within their team, all of them without owner and team, and admins."""
    assert may(kind, ANA)
    assert may(kind, "Ana@Example.com")
    assert not may(kind, BEN)
    assert not may(kind, OP)
    assert may(kind, OP, owner="")
    assert not may(kind, OP, owner="", team=VISION)
    assert not may(kind, OP, team=VISION)
    assert may(kind, OP, team=MANAGED)
    assert may(kind, LEAD, team=VISION)
    assert not may(kind, LEAD)
    assert may(kind, ROOT, team=VISION)
    assert not may(kind, BEN, owner="")
    assert not may(kind, "", owner="")


def test_claims() -> None:
    """The team's operators claim unowned VMs, or any operator where there is no team; an owned VM is claimed by people
    who may act for its owner.
    """
    assert not may(RequestKind.CLAIM, BEN, owner="")
    assert not may(RequestKind.CLAIM, ANA, owner="", team=VISION)
    assert may(RequestKind.CLAIM, OP, owner="")
    assert not may(RequestKind.CLAIM, OP, owner="", team=VISION)
    assert may(RequestKind.CLAIM, OP, owner="", team=MANAGED)
    assert may(RequestKind.CLAIM, LEAD, owner="", team=VISION)
    assert may(RequestKind.CLAIM, ROOT, owner="", team=VISION)
    assert may(RequestKind.CLAIM, ANA)
    assert not may(RequestKind.CLAIM, BEN)
    assert not may(RequestKind.CLAIM, OP)
    assert may(RequestKind.CLAIM, OP, team=MANAGED)
    assert not may(RequestKind.CLAIM, "", owner="")


def test_refusals_say_who_may() -> None:
    """The sentence names the VM, its owner and its team."""

    def refusal_of(kind: RequestKind, owner: str, team: Team | None, by: str = BEN) -> str | None:
        return refusal(kind, by, "debug-ana", owner, team, ACCESS)

    assert refusal_of(RequestKind.STOP, ANA, VISION) == (
        "Only ana@example.com, an operator of team vision or an admin can stop debug-ana."
    )
    assert refusal_of(RequestKind.KEEP, "", None) == "Only an operator or an admin can keep debug-ana."
    assert refusal_of(RequestKind.CLAIM, ANA, None) == "Only an admin can take over debug-ana from ana@example.com."
    assert refusal_of(RequestKind.STOP, ANA, None) == "Only ana@example.com or an admin can stop debug-ana."
    assert refusal_of(RequestKind.STOP, ANA, None, by="") == "Only ana@example.com or an admin can stop debug-ana."


def test_in_whose_name_someone_acts() -> None:
    """Their own, with the role that was granted to them; another's only as an admin, with that other's role then."""

    def who(address: str, role: Role, is_granted: bool = False) -> Principal:
        return Principal(address, role, PERMISSIONS[role], Via.TOKEN, is_granted=is_granted)

    master = Principal("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)
    for me in (who(ANA, Role.OPERATOR), who(ANA, Role.OPERATOR, is_granted=True)):
        assert actor(me) == actor(me, " Ana@Example.com ") == Actor(ANA, me.authority)
    for other in (who(ROOT, Role.ADMIN, is_granted=True), master):
        assert actor(other, ANA) == Actor(ANA, other.authority)
    with pytest.raises(Forbidden):
        actor(who(OP, Role.OPERATOR), ANA)
    with pytest.raises(Invalid):
        actor(master)


def held(address: str, role: Role, *only: Permission, is_granted: bool = False) -> Authority:
    """Makes an authority: a token of a person's for this role, with all of it or with these permissions only."""
    return Authority(address, role, frozenset(only) or PERMISSIONS[role], Via.TOKEN, is_granted, "4f0e19a2c7")


def with_authority(
    authority: Authority, by: str = "", kind: RequestKind = RequestKind.STOP, owner: str = BEN, job: str = ""
) -> str:
    return refusal(kind, by or authority.address, "debug-ana", owner, None, ACCESS, authority, job) or ""


def test_a_role_is_a_ceiling() -> None:
    """The lower of what it was asked with and of the lists' role today; one granted on the server is not theirs."""
    assert with_authority(held(ROOT, Role.ADMIN)) == ""
    assert with_authority(held(ROOT, Role.OPERATOR)).startswith("Only ben@example.com")
    assert with_authority(held(OP, Role.ADMIN)).startswith("Only ben@example.com")
    assert with_authority(held("x@else.example", Role.ADMIN, is_granted=True)) == ""
    assert role_for(ROOT, ACCESS, held(ROOT, Role.OPERATOR)) is Role.OPERATOR
    assert role_for(ROOT, ACCESS, held(ROOT, Role.VIEWER, is_granted=True)) is Role.VIEWER
    assert role_for(OP, ACCESS, held(ROOT, Role.ADMIN)) is Role.OPERATOR, "who is named counts by the lists"


def test_who_lost_their_role_meanwhile_is_refused() -> None:
    """A person is refused also for their own VM, and one who acts for others must still be an admin; in Slack the lists
    decide.
    """
    assert with_authority(held(ANA, Role.OPERATOR), owner=ANA) == (
        "The token 4f0e19a2c7 of ana@example.com counts as viewer and lacks the permission instances."
    )
    assert with_authority(held(OP, Role.ADMIN), by=BEN).endswith("counts as operator and lacks the permission admin.")
    assert with_authority(held(ROOT, Role.ADMIN), by=BEN) == ""
    master = Authority("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)
    assert with_authority(master, by=BEN) == ""
    assert with_authority(master, by=ANA).startswith("Only ben@example.com")
    assert refusal(RequestKind.STOP, ANA, "debug-ana", ANA, None, ACCESS) is None


def test_a_viewer_who_operates_a_team_acts_for_it_over_rest() -> None:
    """The viewer may act for the team's VMs, as in Slack, and for no other; a viewer's role that was granted on the
    server stays one.
    """
    access = replace(ACCESS, team_operators=frozenset({LEAD}))
    authority = Authority(LEAD, Role.VIEWER, permissions_of(Role.VIEWER, LEAD, access), Via.TOKEN)
    for kind in (RequestKind.CLAIM, RequestKind.KEEP, RequestKind.STOP):
        assert refusal(kind, LEAD, "debug", "", VISION, access, authority) is None
        assert refusal(kind, LEAD, "debug", ANA, VISION, access, authority) is None
        for team in (None, MANAGED):
            assert "an admin can" in (refusal(kind, LEAD, "debug", BEN, team, access, authority) or "")
    assert "permission jobs" in (refusal(RequestKind.STOP, LEAD, "x", "", VISION, access, authority, "j1") or "")
    assert permissions_of(Role.VIEWER, LEAD, access, is_granted=True) == PERMISSIONS[Role.VIEWER]
    assert permissions_of(Role.VIEWER, BEN, access) == PERMISSIONS[Role.VIEWER]
    assert permissions_of(Role.NOBODY, LEAD, access) == frozenset()


def test_stopping_the_vm_of_a_job_takes_the_permission_to_cancel_it() -> None:
    """A token for VMs alone cannot end a job by its VM; to keep that VM it may."""
    vms = held(ROOT, Role.ADMIN, Permission.INSTANCES)
    assert with_authority(vms) == ""
    assert with_authority(vms, job="j7k2m9q4").endswith("lacks the permission jobs.")
    assert with_authority(vms, kind=RequestKind.KEEP, job="j7k2m9q4") == ""
    assert with_authority(held(ROOT, Role.ADMIN, Permission.INSTANCES, Permission.JOBS), job="j7k2m9q4") == ""
