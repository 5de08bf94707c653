"""A VM's team, the team's channel, and the contact for its budget."""

from __future__ import annotations

from collections.abc import Iterable

from costguard.access.rules import Rules
from costguard.model.budget import Budget, Scope
from costguard.model.reminder import Team


def team_of(project: str, owner: str, teams: Iterable[Team]) -> Team | None:
    """The owner's team, else the one that the project is given to.

    Of several teams of an owner it is the one with this project, else the first in the settings file.
    """
    teams = tuple(teams)
    address = owner.lower()
    theirs = [team for team in teams if address and (address in team.members or address in team.operators)]
    here = [team for team in theirs or teams if project in team.projects]
    return next(iter(here or theirs), None)


def channel_of(team: Team | None, rules: Rules) -> str:
    """The team's own channel, else the one for all."""
    return team.channel if team is not None and team.channel else rules.channel


def contact_of(project: str, preset: str, owner: str, rules: Rules) -> str:
    """The address of who answers for the narrowest budget that this VM counts against; "" where nobody does.

    A budget names more parts of a scope, the narrower it is. Of equals it is the first in the settings file. A job's
    budget is for its job alone, and a label's for what bears it.
    """
    team = team_of(project, owner, rules.teams)
    owning = [
        budget
        for budget in rules.budgets
        if budget.contact and _covers(budget.scope, project, preset, owner.lower(), team.name if team else "")
    ]
    return max(owning, key=_parts).contact if owning else rules.contact


def _covers(scope: Scope, project: str, preset: str, owner: str, team: str) -> bool:
    return (
        scope.project in (None, project)
        and scope.preset in (None, preset)
        and (scope.owner is None or scope.owner.lower() == owner)
        and scope.team in (None, team)
        and scope.job is None
        and scope.label is None
    )


def _parts(budget: Budget) -> int:
    scope = budget.scope
    return sum(part is not None for part in (scope.project, scope.preset, scope.owner, scope.team))
