"""Who may launch jobs, with what otherwise than the preset, and who may cancel them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from costguard.access.roles import lapsed, operates, role_for
from costguard.access.rules import Access, Rules
from costguard.access.teams import team_of
from costguard.jobs.asked import Overrides, Refusal, shown
from costguard.jobs.recipe import used
from costguard.model.access import Authority, Permission, Role
from costguard.model.launch import Recipe
from costguard.model.reminder import Team


def launch_problems(
    preset: str,
    recipe: Recipe,
    overrides: Overrides,
    owner: str,
    access: Access,
    teams: Collection[Team],
    may_override: Collection[str],
    authority: Authority | None = None,
) -> Iterator[Refusal]:
    """Operators may launch, with what the preset lets them have otherwise; admins with anything."""
    why = lapsed(owner, access, authority, {Permission.JOBS})
    if why and authority is not None and authority.token_id:
        yield Refusal("owner", why)
        return
    if why or not _operates(owner, access, teams, authority):
        yield Refusal("owner", f"{shown(owner)} may not launch: ask an admin to be made an operator under [access].")
        return
    if role_for(owner, access, authority) is Role.ADMIN:
        return
    for name in used(recipe, overrides):
        if name not in may_override:
            message = f"The preset {preset} does not let operators choose this: leave it out, or ask an admin to add"
            yield Refusal(f"overrides.{name}", f"{message} {name} to overrides under [presets.{preset}.launch].")


def cancel_refusal(by: str, owner: str, project: str, rules: Rules, authority: Authority | None = None) -> str | None:
    """Why this person may not cancel a job of this owner's; None: they may."""
    if why := lapsed(by, rules.access, authority, {Permission.JOBS}):
        return why
    team = team_of(project, owner, rules.teams)
    if by.lower() == owner.lower() or operates(by, owner, team, rules.access, authority):
        return None
    whose = f", an operator of team {team.name}" if team is not None else ""
    return f"Only {owner}{whose} or an admin can cancel it."


def _operates(address: str, access: Access, teams: Collection[Team], authority: Authority | None) -> bool:
    """Where nobody is given a role, everybody has an operator's."""
    is_granted = authority is not None and authority.is_granted and authority.of == address.lower()
    is_open = not is_granted and not (access.viewers or access.operators or access.admins)
    is_named = role_for(address, access, authority) in (Role.OPERATOR, Role.ADMIN)
    return is_open or is_named or any(address.lower() in team.operators for team in teams)
