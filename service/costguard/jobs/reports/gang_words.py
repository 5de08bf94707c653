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

    Of a gang also the round, the internal address of each node, and what its VMs prove to each other with that they are
    of it.
    """

    resume_from: str
    step: int | None
    arguments: tuple[str, ...]
    round: int | None = None
    addresses: tuple[str, ...] = ()
    secret: str = ""


@dataclass(frozen=True, slots=True)
class RoundWord:
    round: int


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
        members = [one for one in tried.get(job.id, ()) if one.is_open]
        said |= {one.name: _of_member(job, one, members, secret_of) for one in members if one.name in names}
    return said


def _of_member(job: Job, mine: Attempt, members: Sequence[Attempt], secret_of: SecretOf) -> GangWords:
    wanted = max(1, job.gang_round)
    if mine.stop_asked_at is not None or mine.agent.exit is not None:
        return NOTHING
    if wanted > max(1, mine.agent.ready_round, mine.round):
        return GangWords(regroup=RoundWord(wanted))
    if mine.round != wanted:
        return NOTHING
    plan = job.spec.checkpoint
    others = [one for one in members if one.id != mine.id and one.formation == mine.formation]
    noticed = any(one.agent.noticed_at is not None and one.round == wanted for one in others)
    save = RoundWord(wanted) if noticed and plan is not None and plan.save_on is not None else None
    if mine.agent.started_at is not None:
        return GangWords(save=save)
    if len(others) + 1 != job.spec.nodes:
        return NOTHING
    addresses = {one.node: one.agent.internal_address for one in (mine, *others)}
    go = GoAhead(
        mine.resume_from,
        mine.resume_step,
        resume.arguments(job, mine),
        wanted,
        tuple(addresses[node] for node in sorted(addresses)),
        secret_of(job.id, wanted),
    )
    return GangWords(go=go, save=save)
