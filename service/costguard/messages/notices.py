"""Notices: facts that are told in Slack once each, to a channel, who answers for the budget, or a job's owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.messages import digest_rows, job_content, job_notices, notice_content
from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.fact import Fact
from costguard.model.message import NoticeContent
from costguard.model.ports import Clock
from costguard.model.reminder import Team
from costguard.reminders import message_rows
from costguard.reminders.message_rows import Message, NewMessage

KIND = "notice"
_PRICE = "PriceRefused"
_RESTORE = (notice_content.GENERATION, notice_content.UNKNOWN_VM)
_TOLD = (
    notice_content.CLAIM,
    notice_content.BUDGET,
    notice_content.GPUS,
    notice_content.BURN,
    _PRICE,
    *_RESTORE,
    *job_notices.KINDS,
)
_NEWS_FOR = timedelta(days=1)  # older facts are no news: Slack may be set up on a ledger of years
_GOOD_FOR = timedelta(days=3)
_AT_ONCE = 500  # written in one transaction


class NoticeWatch:
    """Intends a notice for each fact that is worth one. `channel` takes those that no team's channel takes."""

    def __init__(self, database: Database, clock: Clock, rules: Rules, channel: str) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._channel = channel

    def intend(self, fence: Lease | None = None) -> list[str]:
        """The keys of those that were intended now. Writes only what was not intended before."""
        now = self._clock.now()
        with self._database.read() as connection:
            told = digest_rows.recorded_since(connection, _TOLD, now - _NEWS_FOR)
            of_jobs = [fact for _, fact in told if fact.kind in job_notices.KINDS]
            others = [each for each in told if each[1].kind not in job_notices.KINDS]
            found = [
                *_messages(others, self._rules, self._channel),
                *job_notices.messages_of(connection, of_jobs, self._rules, now),
            ]
            known = digest_rows.known(connection, [each.key for each in found])
        new = [each for each in found if each.key not in known]
        for at in range(0, len(new), _AT_ONCE):
            with self._database.write(fence) as connection:
                for each in new[at : at + _AT_ONCE]:
                    message_rows.intend(connection, each, now)
        return [each.key for each in new]


class NoticeComposer:
    """`url` is where people reach the dashboard; "" where they cannot."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: Message, now: datetime) -> Composed | Withdrawn:
        """What happened, with figures as they are now."""
        keys = message.data["facts"]
        found = digest_rows.facts_by_key(connection, [str(key) for key in keys] if isinstance(keys, list) else [])
        if not found:
            return Withdrawn("what it was to tell is not in the ledger")
        if now - message.intended_at >= _GOOD_FOR:
            return Withdrawn("it could not be sent for so long that it is no news any more")
        accrual = accrual_at(connection, now)
        if found[0].kind in job_notices.KINDS:
            return self._news(connection, accrual, found[0])
        return Composed(self._content(connection, accrual, found, message), shown="", is_final=True)

    def _news(self, connection: Connection, accrual: Accrual, fact: Fact) -> Composed | Withdrawn:
        scene = job_content.read_scene(connection, accrual, job_notices.job_id(fact))
        if scene is None:
            return Withdrawn("its job is not in the ledger")
        if why := job_content.outdated(scene.job, fact):
            return Withdrawn(why)
        content = job_content.news(scene, fact, self._page(f"/jobs/{scene.job.id}"))
        return Composed(content, shown="", is_final=True)

    def _content(
        self, connection: Connection, accrual: Accrual, found: Sequence[Fact], message: Message
    ) -> NoticeContent:
        match found[0].kind:
            case notice_content.BUDGET:
                return notice_content.crossing(connection, accrual, found[0], self._rules, self._page("/budgets"))
            case notice_content.GPUS:
                return notice_content.gpus(connection, accrual, found[0], self._page("/"))
            case notice_content.CLAIM:
                return notice_content.claimed(found[0], self._page(f"/vm/{found[0].project}/{found[0].gce_id}"))
            case notice_content.BURN:
                return notice_content.burn(found[0], self._page("/"))
            case notice_content.GENERATION:
                return notice_content.generation(found[0], self._page("/health"))
            case notice_content.UNKNOWN_VM:
                return notice_content.unknown_vms(found, int(str(message.data["count"])), self._page("/health"))
            case _:
                return notice_content.refused(found, int(str(message.data["count"])))

    def _page(self, path: str) -> str:
        return f"{self._url}{path}" if self._url else ""


def _messages(found: Sequence[tuple[datetime, Fact]], rules: Rules, channel: str) -> Iterator[NewMessage]:
    refused: dict[datetime, list[Fact]] = defaultdict(list)
    unknown: dict[datetime, list[Fact]] = defaultdict(list)
    for recorded_at, fact in found:
        if fact.kind == _PRICE:
            refused[recorded_at].append(fact)
        elif fact.kind == notice_content.UNKNOWN_VM:
            unknown[recorded_at].append(fact)
        elif fact.kind == notice_content.GENERATION:
            yield from _new(f"notice/{fact.key}", channel, [fact])
        elif fact.kind == notice_content.BUDGET:
            yield from _of_budget(fact, rules, channel)
        elif fact.kind == notice_content.CLAIM:
            team = teams.team_of(fact.project, str(fact.data["before"] or ""), rules.teams)
            yield from _new(f"notice/{fact.key}", teams.channel_of(team, rules), [fact])
        else:
            team = teams.team_of(fact.project, "", rules.teams)
            yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    # One look after a restore can find many.
    for recorded_at, facts in unknown.items():
        yield from _new(f"notice/unknown/{recorded_at.isoformat()}", channel, facts)
    # One reading of the catalogue can refuse hundreds of prices, for one and the same reason.
    for recorded_at, facts in refused.items():
        yield from _new(f"notice/prices-refused/{recorded_at.isoformat()}", channel, facts)


def _of_budget(fact: Fact, rules: Rules, channel: str) -> Iterator[NewMessage]:
    budget = notice_content.budget_of(fact, rules.budgets)
    if budget is None:
        return
    team = next((each for each in rules.teams if each.name == budget.scope.team), None)
    yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    yield from _new(f"notice/{fact.key}/contact", budget.contact, [fact])


def _new(key: str, address: str, facts: Sequence[Fact]) -> Iterator[NewMessage]:
    if address:
        yield NewMessage(
            key=key,
            kind=KIND,
            address=address,
            data={"facts": [fact.key for fact in facts[: notice_content.SHOWN]], "count": len(facts)},
        )


def _channel_of(team: Team | None, otherwise: str) -> str:
    return team.channel if team is not None and team.channel else otherwise
