"""Which facts of jobs are told in Slack, to whom, and in which thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.engine.accrual import accrual_at
from costguard.engine.telling import job_content
from costguard.engine.telling.job_content import JobFact
from costguard.engine.telling.outbox import Composed, Withdrawn
from costguard.model.fact import Fact
from costguard.model.job import Job
from costguard.policy import teams
from costguard.policy.rules import Rules
from costguard.store import jobs
from costguard.store.messages import Message, NewMessage

CARD = "job"
NEWS = "notice"
KINDS = tuple(JobFact)
# These come often: they go into one thread a job, under a card that shows how the job stands now.
_ROUTINE = frozenset({JobFact.RESUMED, JobFact.WAITS, JobFact.HELD})
_FOR_THE_TEAM = frozenset({JobFact.FAILED, JobFact.FROM_ZERO})


class CardComposer:
    """`url` is where people reach the dashboard; "" where they cannot."""

    def __init__(self, url: str = "") -> None:
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: Message, now: datetime) -> Composed | Withdrawn:
        """How the job stands now. One that was over before Slack took it needs no card."""
        accrual = accrual_at(connection, now)
        scene = job_content.read_scene(connection, accrual, _job_of(message))
        if scene is None:
            return Withdrawn("its job is not in the ledger")
        is_over = scene.job.state.is_over
        if is_over and message.status != "accepted":
            return Withdrawn("the job is over")
        content = job_content.card(scene, f"{self._url}/jobs/{scene.job.id}" if self._url else "")
        return Composed(content, job_content.shown(scene.job), is_final=is_over)

    def changed(self, connection: Connection, live: Sequence[Message], now: datetime) -> list[Message]:  # noqa: ARG002 one of several
        """Those that show what is over."""
        known = jobs.of_ids(connection, {_job_of(message) for message in live})
        shown = {job_id: job_content.shown(job) for job_id, job in known.items()}
        return [message for message in live if shown.get(_job_of(message)) != message.shown]


def messages_of(connection: Connection, found: Sequence[Fact], rules: Rules) -> Iterator[NewMessage]:
    """Each fact to the job's owner, once; what went wrong to the team's channel too."""
    known = jobs.of_ids(connection, {job_id(fact) for fact in found})
    for fact in found:
        job = known.get(job_id(fact))
        if job is None or _is_their_own_doing(fact, job):
            continue
        data = {"facts": [fact.key], "job": job.id}
        kind = JobFact(fact.kind)
        if kind in _ROUTINE:
            thread = f"job:{job.id}"
            yield NewMessage(f"job/{job.id}/owner", CARD, job.spec.owner, {"job": job.id}, thread=thread)
            yield NewMessage(f"notice/{fact.key}", NEWS, job.spec.owner, data, thread=thread)
        else:
            yield NewMessage(f"notice/{fact.key}", NEWS, job.spec.owner, data)
        channel = teams.channel_of(teams.team_of(job.spec.project, job.spec.owner, rules.teams), rules)
        if kind in _FOR_THE_TEAM and channel:
            yield NewMessage(f"notice/{fact.key}/channel", NEWS, channel, data)


def job_id(fact: Fact) -> str:
    return str(fact.data.get("job", ""))


def _is_their_own_doing(fact: Fact, job: Job) -> bool:
    return fact.kind == JobFact.CANCELLED and fact.actor.lower() == job.spec.owner.lower()


def _job_of(message: Message) -> str:
    return str(message.data["job"])
