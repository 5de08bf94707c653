"""What happened in a quarter, put together from what Slack and Google saw; the ledger only tells which row is which."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, time
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, select
from tests.scenario.quarter.fleet import RULES, Made
from tests.scenario.quarter.life import Quarter

from costguard.db.tables import claims, instances, keeps, lifetimes, requests, stops
from costguard_sandbox.clock import to_ms
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.slack.model import Message
from costguard_sandbox.slack.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Post:
    """A reminder as a new message in Slack."""

    at: datetime
    key: str
    cycle: int
    stage: int
    target: str
    message: Message


@dataclass(frozen=True, slots=True)
class Answer:
    """A keep or a claim, as the guard took it down. `until` is a keep's, `owner` a claim's."""

    at: datetime
    until: datetime | None = None
    owner: str | None = None


@dataclass
class Topic:
    """One run of a VM, or one rest, with all that was said and done about it. `over_at` is Google's own moment."""

    subject: str
    vm: VM
    made: Made
    began: datetime
    over_at: datetime | None
    posts: list[Post] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    stops: list[Row[tuple[object, ...]]] = field(default_factory=list)
    requests: list[Row[tuple[object, ...]]] = field(default_factory=list)
    owners: list[tuple[datetime, str]] = field(default_factory=list)

    @property
    def is_run(self) -> bool:
        return self.subject.startswith("run:")

    def is_over(self, at: datetime) -> bool:
        return self.over_at is not None and self.over_at <= at

    def owner(self, at: datetime) -> str:
        """An address, or ""."""
        said = [owner for since, owner in self.owners if since <= at]
        return said[-1] if said else f"{self.made.owner}@example.com" if self.made.owner else ""

    def cycle(self, at: datetime) -> int:
        return sum(answer.at <= at for answer in self.answers)

    def kept_until(self, at: datetime) -> datetime | None:
        """The end of the last keep that was given by then."""
        ends = [answer.until for answer in self.answers if answer.until is not None and answer.at <= at]
        return max(ends) if ends else None

    def stages(self, cycle: int) -> list[datetime]:
        """When each stage of a cycle first stood in Slack, in the order of the stages."""
        first: dict[int, datetime] = {}
        for post in self.posts:
            if post.cycle == cycle:
                first.setdefault(post.stage, post.at)
        return [first[stage] for stage in sorted(first)]


@dataclass
class Story:
    quarter: Quarter
    topics: list[Topic]
    posts: list[tuple[Topic, Post]]
    ephemerals: list[str]  # the keys of those that are messages of their own
    strangers: list[str]  # what could not be put in its place

    @property
    def slack(self) -> Workspace:
        return self.quarter.world.slack

    def is_quiet(self, topic: Topic, at: datetime) -> bool:
        """By the wall clock where its owner is, as Slack has them."""
        if topic.made.is_dear and topic.is_run:
            return False
        zone = RULES.time_zone
        if self.is_known(owner := topic.owner(at)):
            zone = self.slack.user(owner).tz
        local = at.astimezone(ZoneInfo(zone))
        return local.weekday() >= 5 or not time(8) <= local.time() < time(20)

    def is_known(self, address: str) -> bool:
        return bool(address) and not address.startswith("ghost@")


def tell(quarter: Quarter, connection: Connection) -> Story:
    topics, strangers = _topics(quarter, connection)
    posts: list[tuple[Topic, Post]] = []
    ephemerals: list[str] = []
    for message, version in quarter.world.slack.record:
        if version is not message.versions[0] or not version.metadata:
            continue
        key = str(version.metadata["event_payload"]["key"])
        if key.startswith("ephemeral/"):  # what is said in private, among direct messages
            ephemerals.append(key)
            continue
        kind, subject, cycle, stage, target = key.split("/")
        topic = topics.get(subject)
        if kind != "reminder" or topic is None:
            strangers.append(f"{key} is about nothing that ever was")
            continue
        post = Post(version.at, key, int(cycle), int(stage), target, message)
        topic.posts.append(post)
        posts.append((topic, post))
    return Story(quarter, list(topics.values()), posts, ephemerals, strangers)


def _topics(quarter: Quarter, connection: Connection) -> tuple[dict[str, Topic], list[str]]:
    """Every run and every rest that the ledger has a row for, with Google's own moments."""
    vms = {vm.id: vm for vm in quarter.world.every_vm()}
    rows = {row.id: vms[int(row.gce_id)] for row in connection.execute(select(instances))}
    topics: dict[str, Topic] = {}
    strangers = []
    for life in connection.execute(select(lifetimes)):
        vm = rows[life.instance_id]
        began = [to_ms(run.began) for run in vm.runs]
        if life.started_at not in began:
            strangers.append(f"lifetime {life.id} of {vm.name} began at {life.started_at}, and no run of it did")
            continue
        place = began.index(life.started_at)
        run, made = vm.runs[place], quarter.fleet.made[vm.id]
        follows = began[place + 1] if place + 1 < len(began) else vm.deleted_at
        name = f"{life.instance_id}:{life.id}"
        topics[f"run:{name}"] = Topic(f"run:{name}", vm, made, run.began, run.ended)
        if run.ended is not None:
            topics[f"rest:{name}"] = Topic(f"rest:{name}", vm, made, run.ended, follows)
    by_instance: dict[int, list[Topic]] = defaultdict(list)
    for subject, topic in topics.items():
        by_instance[int(subject.split(":")[1])].append(topic)
    for keep in connection.execute(select(keeps)):
        topics[keep.subject].answers.append(Answer(keep.at, until=keep.until))
    for claim in connection.execute(select(claims).order_by(claims.c.id)):
        for topic in by_instance[claim.instance_id]:
            topic.owners.append((claim.at, claim.owner))
            if claim.at >= topic.began:
                topic.answers.append(Answer(claim.at, owner=claim.owner))
    for table in (stops, requests):
        for row in connection.execute(select(table).order_by(table.c.id)):
            getattr(topics[row.subject], table.name).append(row)
    for topic in topics.values():
        topic.answers.sort(key=lambda answer: answer.at)
    return topics, strangers
