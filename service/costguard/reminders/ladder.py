"""The ladder of reminders: from when a VM's owner is reminded, which stage is next, and to whom. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from costguard.model.duration import elapsed, span_text
from costguard.model.preset import Preset
from costguard.model.reminder import Keep, Sent, StorageRule, Target
from costguard.model.utilisation import Evidence, IdleState


@dataclass(frozen=True, slots=True)
class DueMoment:
    """The due moment, past or to come, and the state of things in words.

    `firm_at` is the same without weak evidence of idleness: what may stop a VM goes by it. None: never.
    """

    at: datetime
    why: str
    firm_at: datetime | None
    is_weak: bool = False  # only weak evidence makes it due by now


def due_of_run(
    preset: Preset | None,
    running_since: datetime,
    idle: Evidence | None,
    keeps: Collection[Keep],
    now: datetime,
    age_from: datetime | None = None,
) -> DueMoment | None:
    """When its limit passes, or it came to be known as idle before that, and not within a keep.

    `age_from` is when a person last started it, where Google alone began it again since: the limit counts from there.
    None without a limit, idle or not. What is not known of idleness makes nothing due.
    """
    if preset is None or preset.limit is None:
        return None
    counts_from = age_from or running_since
    over_at = counts_from + preset.limit
    idle_at = _idle_at(preset, running_since, idle)
    at = firm_at = over_at
    if idle_at is not None and idle_at < over_at:
        at = idle_at
        firm_at = over_at if idle is not None and idle.is_weak else idle_at
    until = kept_to(keeps)
    if until is not None:
        at, firm_at = max(at, until), max(firm_at, until)
    return DueMoment(at, why_running(preset, preset.name, counts_from, idle, now), firm_at, is_weak=at <= now < firm_at)


def due_of_rest(
    rule: StorageRule, rest_since: datetime, keeps: Collection[Keep], what: str, now: datetime
) -> DueMoment | None:
    """Returns the moment at which storage has billed for long enough to ask about it.

    `what` is `stopped` or `suspended`.
    """
    if rule.after is None:
        return None
    at, until = rest_since + rule.after, kept_to(keeps)
    at = at if until is None else max(at, until)
    return DueMoment(at, f"{what} for {span_text(elapsed(rest_since, now))}, and its storage is billed", None)


def kept_to(keeps: Collection[Keep]) -> datetime | None:
    return max(keep.until for keep in keeps) if keeps else None


def why_running(preset: Preset | None, name: str, running_since: datetime, idle: Evidence | None, now: datetime) -> str:
    """`past the limit of preset t4 (8 h) by 2 h, idle for 3 h`"""
    age, suffix = elapsed(running_since, now), _idle_text(idle, now)
    if preset is None or preset.limit is None:
        return f"running for {span_text(age)} (preset {name} sets no limit){suffix}"
    limit = _limit_text(preset.limit)
    if age < preset.limit:
        return f"running for {span_text(age)} (limit of preset {name}: {limit}){suffix}"
    return f"past the limit of preset {name} ({limit}) by {span_text(age - preset.limit)}{suffix}"


_limit_text = lru_cache(span_text)  # few limits, many VMs


def _idle_at(preset: Preset, running_since: datetime, idle: Evidence | None) -> datetime | None:
    """Returns the moment at which idleness was established: it is known at the end of its window."""
    if idle is None or idle.state is not IdleState.IDLE or preset.idle is None:
        return None
    return max(idle.since, running_since) + preset.idle.window


def _idle_text(idle: Evidence | None, now: datetime) -> str:
    if idle is None or idle.state is not IdleState.IDLE:
        return ""
    return f", idle for {span_text(elapsed(idle.since, now))}{' by CPU and network alone' if idle.is_weak else ''}"


def past_limit(preset: Preset | None, running_since: datetime, now: datetime) -> bool:
    return preset is not None and preset.limit is not None and now - running_since >= preset.limit


_CHANNEL_FROM = 2
_CONTACT_AT = 3
_DAILY_FROM = 4  # from this stage on nobody is asked more than once a day
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class AcceptedStage:
    """A stage that Slack accepted: when first, and which message that was."""

    stage: int
    at: datetime
    key: str


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """The progress of the stages of one cycle. The present stage is the first that was not accepted."""

    warned: tuple[AcceptedStage, ...] = ()
    waiting: frozenset[Target] = frozenset()  # who has a message that Slack has not accepted yet
    is_intended: bool = False  # the present stage waits for Slack
    failed: frozenset[Target] = frozenset()  # to whom the present stage cannot be sent

    @property
    def stage(self) -> int:
        return self.warned[-1].stage + 1 if self.warned else 0


def standing_of(sent: Iterable[Sent], cycle: int) -> LadderPosition:
    """A stage counts as accepted once one of its targets has it, at the first such moment.

    One that failed for all warned nobody: it is not over, and the ladder does not climb past it.
    """
    mine = [message for message in sent if message.cycle == cycle]
    if not mine:
        return LadderPosition()
    accepted: dict[int, AcceptedStage] = {}
    for message in mine:
        before = accepted.get(message.stage)
        if message.accepted_at is not None and (before is None or message.accepted_at < before.at):
            accepted[message.stage] = AcceptedStage(message.stage, message.accepted_at, message.key)
    warned = tuple(accepted[stage] for stage in sorted(accepted))
    open_ones = [message for message in mine if message.accepted_at is None]
    now_sent = [one for one in open_ones if one.stage not in accepted]
    return LadderPosition(
        warned,
        frozenset(one.target for one in open_ones if not one.is_failed),
        any(not message.is_failed for message in now_sent),
        frozenset(message.target for message in now_sent if message.is_failed),
    )


def next_at(standing: LadderPosition, due_at: datetime, every: timedelta) -> datetime:
    """Returns when the present stage is due: silence is counted from when the stage before was accepted."""
    if not standing.warned:
        return due_at
    gap = max(every, _DAY) if standing.stage >= _DAILY_FROM else every
    return max(due_at, standing.warned[-1].at + gap)


def may_need_contact(standing: LadderPosition, ahead: int = 0) -> bool:
    """Says whether the present stage, or one as far ahead as that, may go to the contact."""
    return standing.stage <= _CONTACT_AT <= standing.stage + ahead or bool(standing.failed)


def targets_of(standing: LadderPosition, has_owner: bool, has_contact: bool) -> tuple[Target, ...]:
    """Returns the recipients of the present stage; none where those are still waiting for an earlier message.

    `has_owner`: Slack knows the owner. Where Slack refused every recipient, it goes to anyone who is left, so that a
    lost account does not end the reminding.
    """
    wanted = [Target.OWNER if has_owner else Target.CHANNEL]
    if standing.stage >= _CHANNEL_FROM and Target.CHANNEL not in wanted:
        wanted.append(Target.CHANNEL)
    if standing.stage == _CONTACT_AT and has_contact:
        wanted.append(Target.CONTACT)
    left = [target for target in wanted if target not in standing.failed]
    if left:
        return tuple(target for target in left if target not in standing.waiting)
    others = [Target.CHANNEL, *([Target.CONTACT] if has_contact else [])]
    return tuple([other for other in others if other not in standing.failed | standing.waiting][:1])
