"""Roles and permissions: who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from costguard.access.rules import Access
from costguard.errors import Forbidden, Invalid
from costguard.model.access import PERMISSIONS, Authority, Permission, Principal, Role
from costguard.model.reminder import RequestKind, Team

_FEW = 3  # admins that a refusal names

_VERB = {
    RequestKind.STOP: "stop",
    RequestKind.KEEP: "keep",
    RequestKind.CLAIM: "take over",
    RequestKind.DISOWN: "disown",
}


@dataclass(frozen=True, slots=True)
class Actor:
    """The person in whose name an act is done, with its authority; None: in Slack, where the lists alone decide."""

    address: str
    authority: Authority | None = None


def actor(principal: Principal, named: str = "") -> Actor:
    """People act as themselves. An admin may name another, and is held to what that person may do.

    Raises Forbidden, or Invalid where the master token, which speaks for nobody, names nobody.
    """
    wanted = named.strip().lower()
    if wanted in ("", principal.address) and principal.address:
        return Actor(principal.address, principal.authority)
    if not wanted:
        raise Invalid(
            "This token speaks for nobody.",
            "Name the requester by an e-mail address, such as ana@example.com.",
            kind="name-refused",
        )
    if not principal.may(Permission.ADMIN):
        raise Forbidden(
            f"You are {principal.address}, and only admins act in another's name.",
            "Leave the name out to act as yourself, or ask an admin.",
            kind="name-refused",
        )
    return Actor(wanted, principal.authority)


def role_of(address: str, access: Access) -> Role:
    """The highest role that the lists give to this address, by itself or by its domain."""
    if _listed(address, access.admins):
        return Role.ADMIN
    if _listed(address, access.operators):
        return Role.OPERATOR
    return Role.VIEWER if _listed(address, access.viewers) else Role.NOBODY


def role_for(address: str, access: Access, authority: Authority | None) -> Role:
    """The role that counts: the lists' of today, and no more than what was asked with; or the one granted with that.

    Who is named by an admin counts by the lists.
    """
    listed = role_of(address, access)
    if authority is None or authority.address != address.lower():
        return listed
    return authority.role if authority.is_granted else lower_of(authority.role, listed)


def permissions_of(role: Role, address: str, access: Access, is_granted: bool = False) -> frozenset[Permission]:
    """Returns the permissions of a role; a viewer who operates a team may also make requests for VMs: `refusal` knows
    of which.

    A role that was granted on the server is all that it says.
    """
    operates_a_team = role is Role.VIEWER and not is_granted and _listed(address, access.team_operators)
    return PERMISSIONS[role] | ({Permission.INSTANCES} if operates_a_team else frozenset())


def lower_of(one: Role, other: Role) -> Role:
    return min(one, other, key=lambda role: role.rank)


def lapsed(by: str, access: Access, authority: Authority | None, needed: Set[Permission]) -> str | None:
    """Explains why the authority does not hold, or no more; None: it does.

    Judged when a request is made and again when it is carried out: people may have lost their role in between.
    """
    if authority is None:
        return None
    role = authority.role if not authority.address else role_for(authority.address, access, authority)
    may = authority.permissions & permissions_of(role, authority.address, access, authority.is_granted)
    wanted = needed | ({Permission.ADMIN} if authority.address != by.lower() else set())
    if not (lacking := sorted(permission.value for permission in wanted - may)):
        return None
    who = authority.address or "The master token"
    if authority.token_id:
        who = f"The token {authority.token_id} of {authority.address}"
    return f"{who} counts as {role.value} and lacks the permission {' and '.join(lacking)}."


def without_role(address: str, access: Access, teams: Iterable[Team]) -> str:
    """Explains why this person gets nothing in Slack: no list and no team's operators name them; "" where one does."""
    if role_of(address, access) is not Role.NOBODY or any(_listed(address, team.operators) for team in teams):
        return ""
    admins = sorted(entry for entry in access.admins if not entry.startswith("@"))[:_FEW]
    whom = " or ".join(admins) if admins else "an admin"
    return f"{address} has no role in Costguard, so nothing was done. Ask {whom} for one: [access] in the settings."


def refusal(
    kind: RequestKind,
    by: str,
    name: str,
    owner: str,
    team: Team | None,
    access: Access,
    authority: Authority | None = None,
    job: str = "",
) -> str | None:
    """Explains why this person may not do this to the VM `name`, which works on `job`; None: they may, but for claims.

    Claims add to this: see `reminders/request_rules.py`.
    """
    cancels = {Permission.JOBS} if job and kind is RequestKind.STOP else set()
    if why := lapsed(by, access, authority, {Permission.INSTANCES} | cancels):
        return why
    is_owner = bool(owner) and by.lower() == owner.lower()
    if is_owner or operates(by, owner, team, access, authority):
        return None
    who = [] if kind is RequestKind.CLAIM or not owner else [owner]
    if team is not None or not owner:
        who.append(f"an operator of team {team.name}" if team is not None else "an operator")
    sentence = f"Only {', '.join(who)}{' or ' if who else ''}an admin can {_VERB[kind]} {name}"
    return f"{sentence} from {owner}." if kind is RequestKind.CLAIM and owner else f"{sentence}."


def operates(by: str, owner: str, team: Team | None, access: Access, authority: Authority | None) -> bool:
    """Admins act for everybody, operators within their own team, and for what is unowned and of no team."""
    role = role_for(by, access, authority)
    if role is Role.ADMIN:
        return True
    if team is None:
        return role is Role.OPERATOR and not owner
    return _listed(by, team.operators) or (role is Role.OPERATOR and _listed(by, team.members))


def _listed(address: str, entries: Set[str]) -> bool:
    lowered = address.lower()
    _, at, domain = lowered.rpartition("@")
    return bool(at) and (lowered in entries or f"@{domain}" in entries)


def permission_refused(principal: Principal, permission: Permission) -> Forbidden:
    """The refusal of what needs a permission that the principal lacks."""
    who = principal.address or "This token"
    what_next = "Ask an admin: roles are given by address or domain under [access] in the settings file."
    if principal.token_id:
        who = f"The token {principal.token_id} of {principal.address}"
        what_next = "Make a token with it: `costguard token create --permission`, as a person whose role has it."
    name = principal.role.value
    role = "has no role here" if not principal.permissions else f"is {'an' if name[0] in 'ao' else 'a'} {name}"
    return Forbidden(f"{who} {role}, and this needs the permission {permission.value}.", what_next)
