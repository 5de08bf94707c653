"""Who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from costguard.errors import NobodyNamed, NotTheirName
from costguard.model.access import Permission, Principal, Role
from costguard.model.reminder import Asked, Team
from costguard.policy.rules import Access

_FEW = 3  # admins that a refusal names

_VERB = {
    Asked.STOP: "stop",
    Asked.SUSPEND: "suspend",
    Asked.KEEP: "keep",
    Asked.CLAIM: "take over",
    Asked.DISOWN: "disown",
}


@dataclass(frozen=True, slots=True)
class Actor:
    """In whose name something is done. `granted` is the role given on the server; None: the lists say it."""

    address: str
    granted: Role | None = None


def actor(principal: Principal, named: str = "") -> Actor:
    """Somebody acts as themselves. An admin may name another, and is held to what that person may do.

    Raises NotTheirName, or NobodyNamed where the master token, which speaks for nobody, names nobody.
    """
    wanted = named.strip().lower()
    if wanted in ("", principal.address) and principal.address:
        return Actor(principal.address, principal.role if principal.is_granted else None)
    if not wanted:
        raise NobodyNamed("This token speaks for nobody.", "Name who asks by an address, such as ana@example.com.")
    if not principal.may(Permission.ADMIN):
        raise NotTheirName(
            f"You are {principal.address}, and only admins act in another's name.",
            "Leave the name out to act as yourself, or ask an admin.",
        )
    return Actor(wanted)


def role_of(address: str, access: Access) -> Role:
    """The highest role that the lists give to this address, by itself or by its domain."""
    if _listed(address, access.admins):
        return Role.ADMIN
    if _listed(address, access.operators):
        return Role.OPERATOR
    return Role.VIEWER if _listed(address, access.viewers) else Role.NOBODY


def role_for(address: str, access: Access, granted: Role | None) -> Role:
    """The role that was granted on the server, else the one of the lists."""
    return role_of(address, access) if granted is None else granted


def without_role(address: str, access: Access, teams: Iterable[Team]) -> str:
    """Why this person gets nothing in Slack: no list and no team's operators name them; "" where one does."""
    if role_of(address, access) is not Role.NOBODY or any(_listed(address, team.operators) for team in teams):
        return ""
    admins = sorted(entry for entry in access.admins if not entry.startswith("@"))[:_FEW]
    whom = " or ".join(admins) if admins else "an admin"
    return f"{address} has no role in Costguard, so nothing was done. Ask {whom} for one: [access] in the settings."


def refusal(
    asked: Asked, by: str, name: str, owner: str, team: Team | None, access: Access, granted: Role | None = None
) -> str | None:
    """Why this person may not do this to the VM `name`; None: they may.

    A VM that is nobody's may be claimed by anybody who has an address.
    """
    if not by:
        return f"Slack tells no e-mail address of yours, so you cannot {_VERB[asked]} {name}."
    is_owner = bool(owner) and by.lower() == owner.lower()
    if is_owner or (asked is Asked.CLAIM and not owner) or operates(by, owner, team, access, granted):
        return None
    who = [] if asked is Asked.CLAIM or not owner else [owner]
    if team is not None or not owner:
        who.append(f"an operator of team {team.name}" if team is not None else "an operator")
    sentence = f"Only {', '.join(who)}{' or ' if who else ''}an admin can {_VERB[asked]} {name}"
    return f"{sentence} from {owner}." if asked is Asked.CLAIM else f"{sentence}."


def operates(by: str, owner: str, team: Team | None, access: Access, granted: Role | None) -> bool:
    """Admins act for everybody, operators within their own team, and for what is nobody's and of no team."""
    role = role_for(by, access, granted)
    if role is Role.ADMIN:
        return True
    if team is None:
        return role is Role.OPERATOR and not owner
    return _listed(by, team.operators) or (role is Role.OPERATOR and _listed(by, team.members))


def _listed(address: str, entries: Set[str]) -> bool:
    lowered = address.lower()
    _, at, domain = lowered.rpartition("@")
    return bool(at) and (lowered in entries or f"@{domain}" in entries)
