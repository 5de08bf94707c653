"""Answers the reports of a gang's members: to begin, to regroup, to save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from costguard.jobs.decide.recovery import resume
from costguard.jobs.rows import attempts, job_rows
from costguard.model.attempt import Attempt
from costguard.model.job import Job


@dataclass(frozen=True, slots=True)
class GoAhead:
    """The start of a command that waited; `resume_from` "" is the beginning.

    Of a gang also the round, the internal address and the name of each VM by its place in it, what they prove to each
    other with that they are of it, and this VM's place, from 0.
    """

    resume_from: str
    step: int | None
    arguments: tuple[str, ...]
    round: int | None = None
    addresses: tuple[str, ...] = ()
    secret: str = ""
    rank: int | None = None
    vms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundWord:
    """`publishes`: this VM publishes what is left of earlier rounds, if it is whole; None: by its node, as others."""

    round: int
    publishes: bool | None = None


@dataclass(frozen=True, slots=True)
class GangWords:
    """The words for one member; None: not now."""

    go: GoAhead | None = None
    regroup: RoundWord | None = None  # the round to get ready for
    save: RoundWord | None = None  # the round in which to save once


NOTHING = GangWords()
SecretOf = Callable[[str, int], str]  # of a job's round


def words(connection: Connection, names: Mapping[str, str], secret_of: SecretOf) -> dict[str, GangWords]:
    """Returns the words for members of gangs, by attempt's name. `names` are those of attempts, with their jobs.

    Call it after their reports were stored: an answer follows from them.
    """
    if not names:
        return {}
    jobs = job_rows.of_ids(connection, set(names.values()))
    tried = attempts.of_jobs(connection, list(jobs))
    said: dict[str, GangWords] = {}
    for job in jobs.values():
        members = tried.get(job.id, [])
        said |= {one.name: _of_member(job, one, members, secret_of) for one in members if one.name in names}
    return said


def _of_member(job: Job, mine: Attempt, tried: Sequence[Attempt], secret_of: SecretOf) -> GangWords:
    wanted = max(1, job.gang_round)
    if not mine.is_open or mine.stop_asked_at is not None or mine.agent.exit is not None:
        return NOTHING
    of_formation = [one for one in tried if one.formation == mine.formation]
    if wanted > max(1, mine.agent.ready_round, mine.round):
        publishes = _publishes(mine, of_formation) if job.spec.is_elastic else None
        return GangWords(regroup=RoundWord(wanted, publishes))
    if mine.round != wanted:
        return NOTHING
    plan = job.spec.checkpoint
    members = sorted((one for one in of_formation if one.round == wanted), key=lambda one: one.node)
    others = [one for one in members if one.id != mine.id and one.is_open]
    noticed = any(one.agent.noticed_at is not None for one in others)
    save = RoundWord(wanted) if noticed and plan is not None and plan.save_on is not None else None
    if mine.agent.started_at is not None:
        return GangWords(save=save)
    if len(others) + 1 != len(members):
        return NOTHING
    go = GoAhead(
        mine.resume_from,
        mine.resume_step,
        resume.arguments(job, mine),
        wanted,
        tuple(one.agent.internal_address for one in members),
        secret_of(job.id, wanted),
        members.index(mine),
        tuple(one.name for one in members),
    )
    return GangWords(go=go, save=save)


def _publishes(mine: Attempt, of_formation: Sequence[Attempt]) -> bool:
    """Says whether this is the first of those that ran the last round; of all, where none of those is left."""
    open_now = [one for one in of_formation if one.is_open]
    last = max((one.round for one in of_formation), default=0)
    ran = [one for one in open_now if last and one.round == last]
    return min(ran or open_now, key=lambda one: one.node).id == mine.id
