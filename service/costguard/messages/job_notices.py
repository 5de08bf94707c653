"""Which facts of jobs are told in Slack, to whom, and in which thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.jobs import interruptions, job_rows
from costguard.jobs.announcing import Announcement, Card, Form, JobFact, announced
from costguard.ledger.accrual import accrual_at
from costguard.messages import job_content
from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.fact import Fact
from costguard.model.job import Job
from costguard.reminders import message_rows
from costguard.reminders.message_rows import Message, NewMessage

CARD = "job"
NEWS = "notice"
KINDS = tuple(JobFact)


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
        known = job_rows.of_ids(connection, {_job_of(message) for message in live})
        shown = {job_id: job_content.shown(job) for job_id, job in known.items()}
        return [message for message in live if shown.get(_job_of(message)) != message.shown]


def messages_of(connection: Connection, found: Sequence[Fact], rules: Rules, now: datetime) -> Iterator[NewMessage]:
    """What each job's owner, and its team's channel, get of these: see jobs/announcing.py."""
    by_job: dict[str, list[Fact]] = defaultdict(list)
    for fact in found:
        by_job[job_id(fact)].append(fact)
    known = job_rows.of_ids(connection, by_job)
    interrupted = interruptions.of_jobs(connection, list(known))
    cards = message_rows.data_of(connection, [_card_key(each) for each in known])
    for job in known.values():
        news = [fact for fact in by_job[job.id] if not _is_their_own_doing(fact, job)]
        card = _card(cards.get(_card_key(job.id)))
        quick = rules.jobs.terms.quick_crash
        for each in announced(news, interrupted.get(job.id, ()), card, quick, now):
            yield from _of_owner(each, job)
            channel = teams.channel_of(teams.team_of(job.spec.project, job.spec.owner, rules.teams), rules)
            if each.is_for_team and channel:
                yield NewMessage(f"notice/{each.fact.key}/channel", NEWS, channel, _data(each.fact, job))


def _of_owner(each: Announcement, job: Job) -> Iterator[NewMessage]:
    thread = f"job:{job.id}"
    if each.form is Form.CARD:
        data = {"job": job.id, "fact": each.fact.key, "episode": each.episode}
        yield NewMessage(_card_key(job.id), CARD, job.spec.owner, data, thread=thread)
    else:
        in_thread = thread if each.form is Form.REPLY else ""
        yield NewMessage(f"notice/{each.fact.key}", NEWS, job.spec.owner, _data(each.fact, job), thread=in_thread)


def _data(fact: Fact, job: Job) -> dict[str, object]:
    return {"facts": [fact.key], "job": job.id}


def _card_key(job: str) -> str:
    return f"job/{job}/owner"


def _card(data: Mapping[str, object] | None) -> Card | None:
    if data is None:
        return None
    episode = data.get("episode")
    return Card(str(data.get("fact", "")), episode if isinstance(episode, int) else None)


def job_id(fact: Fact) -> str:
    return str(fact.data.get("job", ""))


def _is_their_own_doing(fact: Fact, job: Job) -> bool:
    return fact.kind == JobFact.CANCELLED and fact.actor.lower() == job.spec.owner.lower()


def _job_of(message: Message) -> str:
    return str(message.data["job"])
