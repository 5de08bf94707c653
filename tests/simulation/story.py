"""Puts together the story of a quarter from what Slack and Google saw; the ledger only tells which row is which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, select
from tests.simulation.faults import LEAVER, LEFT
from tests.simulation.fleet import Made
from tests.simulation.operators import InForce
from tests.simulation.pools import pool_of
from tests.simulation.settings import PROJECT, RULES

from costguard.db.tables import claims, instances, keeps, lifetimes, requests, stops
from costguard.model.lifetime import EndReason
from costguard.model.preset import Preset
from costguard_sandbox.clock import to_ms
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.slack.model import Message
from costguard_sandbox.slack.workspace import Workspace

if TYPE_CHECKING:
    from tests.simulation.life import Life


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
    """A run of a VM, or one rest, with all that was said and done about it. `over_at` is Google's own moment."""

    subject: str
    vm: VM
    made: Made
    began: datetime
    over_at: datetime | None
    in_force: InForce
    counts_from: datetime | None = None  # of a run that Google alone began again: when a person last started the VM
    is_known_so: bool = False  # and the ledger has the reason that the run before it ended
    posts: list[Post] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    stops: list[Row[tuple[object, ...]]] = field(default_factory=list)
    requests: list[Row[tuple[object, ...]]] = field(default_factory=list)
    owners: list[tuple[datetime, str]] = field(default_factory=list)

    @property
    def is_run(self) -> bool:
        return self.subject.startswith("run:")

    @property
    def is_pooled(self) -> bool:
        """Says whether it is asked about together with others: a run of a VM that only stops with them."""
        return self.is_run and bool(pool_of(self.vm))

    @property
    def limit_from(self) -> datetime:
        """The earliest moment from which a limit may count."""
        return self.counts_from or self.began

    def preset(self, at: datetime) -> Preset:
        """Returns the preset as the settings had it then."""
        return self.in_force.at(at).presets[self.made.preset]

    def presets(self, begin: datetime, end: datetime) -> list[Preset]:
        return [rules.presets[self.made.preset] for rules in self.in_force.between(begin, end)]

    def is_over(self, at: datetime) -> bool:
        return self.over_at is not None and self.over_at <= at

    def owner(self, at: datetime) -> str:
        """An address, or ""."""
        said = [owner for since, owner in self.owners if since <= at]
        return said[-1] if said else f"{self.made.owner}@example.com" if self.made.owner else ""

    def is_anyones(self, address: str) -> bool:
        """Says whether it ever was this person's."""
        return f"{self.made.owner}@example.com" == address or any(owner == address for _, owner in self.owners)

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
    life: Life
    topics: list[Topic]
    posts: list[tuple[Topic, Post]]
    others: list[str]  # the keys of all other messages
    ephemerals: list[str]  # the keys of those that are messages of their own
    strangers: list[str]  # what could not be put in its place
    set_aside: frozenset[int] = frozenset()  # VMs with a topic that is not judged

    @property
    def slack(self) -> Workspace:
        return self.life.world.slack

    def is_quiet(self, topic: Topic, at: datetime) -> bool:
        """Says whether it is quiet by the wall clock where its owner is, as Slack has them."""
        if topic.made.is_dear and topic.is_run:
            return False
        zone, quiet = RULES.time_zone, self.life.settings.rules().quiet
        if self.is_known(owner := topic.owner(at)):
            zone = self.slack.user(owner).tz
        local = at.astimezone(ZoneInfo(zone))
        is_night = quiet.starts != quiet.ends and not quiet.ends <= local.time() < quiet.starts
        return local.weekday() in quiet.days or is_night

    def is_known(self, address: str) -> bool:
        return bool(address) and not address.startswith("ghost@")


def tell(life: Life, connection: Connection) -> Story:
    topics, strangers = _topics(life, connection)
    others: list[str] = []
    subjects = {
        f"{kind}:{row.instance_id}:{row.id}"
        for row in connection.execute(select(lifetimes.c.id, lifetimes.c.instance_id))
        for kind in ("run", "rest")
    }
    posts: list[tuple[Topic, Post]] = []
    ephemerals: list[str] = []
    for message, version in life.world.slack.record:
        if version is not message.versions[0] or not version.metadata:
            continue
        key = str(version.metadata["event_payload"]["key"])
        if key.startswith("ephemeral/"):  # what is said in private, among direct messages
            ephemerals.append(key)
            continue
        if not key.startswith("reminder/"):
            others.append(key)
            continue
        _, subject, cycle, stage, target = key.rsplit("/", 4)
        if subject not in subjects:
            strangers.append(f"{key} is about nothing that ever was")
            continue
        topic = topics.get(subject)
        if topic is None:  # of a VM whose life nobody planned
            others.append(key)
            continue
        post = Post(version.at, key, int(cycle), int(stage), target, message)
        topic.posts.append(post)
        posts.append((topic, post))
    set_aside: frozenset[int] = frozenset()
    if life.weather.injected[LEFT]:  # whom it went to while they were away depends on when the guard learnt of it
        away = {topic.subject for topic in topics.values() if topic.is_anyones(f"{LEAVER}@example.com")}
        set_aside = frozenset(topics[subject].vm.id for subject in away)
        others += [post.key for topic, post in posts if topic.subject in away]
        posts = [(topic, post) for topic, post in posts if topic.subject not in away]
        topics = {subject: topic for subject, topic in topics.items() if subject not in away}
    return Story(life, list(topics.values()), posts, others, ephemerals, strangers, set_aside)


def _was_lost_in_its_start(lifetime: Row[Any], vm: VM) -> bool:
    """Google lets a start end without an error though a preemption came before its end: no run, and nothing to pay."""
    is_short = lifetime.ended_at is not None and lifetime.ended_at - lifetime.started_at < timedelta(minutes=1)
    is_run = any(to_ms(run.began) == lifetime.started_at for run in vm.runs)
    return is_short and not is_run and lifetime.end_reason == EndReason.PREEMPTED.value


def _follows(vm: VM, vain: Sequence[datetime], after: datetime) -> datetime | None:
    """Returns when a rest that begins then is over: with the next start, be it in vain, or when the VM is deleted."""
    starts = [*(run.began for run in vm.runs), *vain]
    return min((moment for moment in starts if moment > after), default=vm.deleted_at)


def _before(lifetime: Row[Any], stored: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The runs of its VM before it, oldest first."""
    mine = (row for row in stored if row.instance_id == lifetime.instance_id and row.started_at < lifetime.started_at)
    return sorted(mine, key=lambda row: row.started_at)


def _began_again(life: Life, vm: VM, run: int) -> datetime | None:
    """When a person or a program last started the VM, where Google began this run of it by itself; else None."""
    operations = [one for one in life.world.operations.of(PROJECT) if one.target_id == vm.id]
    began, number = vm.runs[run].began, run
    while number > 0:
        before, after = vm.runs[number - 1], vm.runs[number]
        assert before.ended is not None  # another run began since
        ended, moment = before.ended, after.began
        by_google = any(
            one.kind in _BY_GOOGLE and timedelta() <= ended - one.insert_time <= timedelta(minutes=2)
            for one in operations
        )
        started = any(
            one.kind in ("start", "insert", "resume")
            and not one.user.endswith("@cloudservices.gserviceaccount.com")
            and one.end_time is not None
            and ended < one.end_time <= moment + timedelta(seconds=10)
            for one in operations
        )
        if not by_google or started:
            break
        began, number = before.began, number - 1
    return to_ms(began) if number < run else None


_BY_GOOGLE = frozenset(
    f"compute.instances.{kind}" for kind in ("hostError", "terminateOnHostMaintenance", "repair.recreateInstance")
)
_KNOWN_SO = frozenset({EndReason.HOST_ERROR.value, EndReason.HOST_MAINTENANCE.value, EndReason.RECREATED.value})


def _topics(life: Life, connection: Connection) -> tuple[dict[str, Topic], list[str]]:
    """Every run and every rest of people's VMs that the ledger has a row for, with Google's own moments."""
    vms = {str(vm.id): vm for vm in life.world.every_vm() if vm.id in life.fleet.made}
    rows = {row.id: vms[row.gce_id] for row in connection.execute(select(instances)) if row.gce_id in vms}
    topics: dict[str, Topic] = {}
    chained: dict[str, list[str]] = {}  # the runs whose keeps still hold, by the run that Google began after them
    since: dict[str, datetime] = {}
    strangers = []
    rules = life.operators.in_force
    stored = [row for row in connection.execute(select(lifetimes)).all() if row.instance_id in rows]
    lost = {row.id: row for row in stored if _was_lost_in_its_start(row, rows[row.instance_id])}
    for lifetime in stored:
        vm = rows[lifetime.instance_id]
        vain = [row.started_at for row in lost.values() if row.instance_id == lifetime.instance_id]
        if lifetime.id in lost:
            subject, made = f"rest:{lifetime.instance_id}:{lifetime.id}", life.fleet.made[vm.id]
            topics[subject] = Topic(subject, vm, made, lifetime.ended_at, _follows(vm, vain, lifetime.ended_at), rules)
            continue
        began = [to_ms(run.began) for run in vm.runs]
        if lifetime.started_at not in began:
            strangers.append(
                f"lifetime {lifetime.id} of {vm.name} began at {lifetime.started_at}, and no run of it did"
            )
            continue
        run, made = vm.runs[began.index(lifetime.started_at)], life.fleet.made[vm.id]
        name = f"{lifetime.instance_id}:{lifetime.id}"
        before = _before(lifetime, stored)
        topics[f"run:{name}"] = Topic(
            f"run:{name}", vm, made, run.began, run.ended, rules,
            _began_again(life, vm, began.index(lifetime.started_at)),
            bool(before) and before[-1].end_reason in _KNOWN_SO,
        )  # fmt: skip
        if lifetime.age_from is not None:
            chained[f"run:{name}"] = [
                f"run:{row.instance_id}:{row.id}" for row in before if lifetime.age_from <= row.started_at
            ]
            since[f"run:{name}"] = lifetime.age_from
        if run.ended is not None:
            topics[f"rest:{name}"] = Topic(f"rest:{name}", vm, made, run.ended, _follows(vm, vain, run.ended), rules)
    by_instance: dict[int, list[Topic]] = defaultdict(list)
    for subject, topic in topics.items():
        by_instance[int(subject.split(":")[1])].append(topic)
    for keep in connection.execute(select(keeps)):
        for subject in (keep.subject, *(one for one, runs in chained.items() if keep.subject in runs)):
            if subject in topics:
                topics[subject].answers.append(Answer(keep.at, until=keep.until))
    for claim in connection.execute(select(claims).order_by(claims.c.id)):
        for topic in by_instance[claim.instance_id]:
            topic.owners.append((claim.at, claim.owner))
            if claim.at >= since.get(topic.subject, topic.began):
                topic.answers.append(Answer(claim.at, owner=claim.owner))
    for table in (stops, requests):
        for row in connection.execute(select(table).order_by(table.c.id)):
            if row.subject in topics:
                getattr(topics[row.subject], table.name).append(row)
    for topic in topics.values():
        topic.answers.sort(key=lambda answer: answer.at)
    return topics, strangers
