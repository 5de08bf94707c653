"""The ladder of reminders: which stage is next, when, and to whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.model.reminder import Sent, Target

_CHANNEL_FROM = 2
_CONTACT_AT = 3
_DAILY_FROM = 4  # from this stage on nobody is asked more than once a day
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class AcceptedStage:
    """A stage that Slack accepted: when first, and which message that was."""

    at: datetime
    key: str


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """How far the stages of one cycle came. The present stage is the first that was not accepted."""

    warned: tuple[AcceptedStage, ...] = ()
    waiting: frozenset[Target] = frozenset()  # who has a message that Slack has not accepted yet
    is_intended: bool = False  # the present stage waits for Slack
    failed: frozenset[Target] = frozenset()  # to whom the present stage cannot be sent

    @property
    def stage(self) -> int:
        return len(self.warned)


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
            accepted[message.stage] = AcceptedStage(message.accepted_at, message.key)
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
    """When the present stage is due: silence is counted from when the stage before was accepted."""
    if not standing.warned:
        return due_at
    gap = max(every, _DAY) if standing.stage >= _DAILY_FROM else every
    return max(due_at, standing.warned[-1].at + gap)


def may_need_contact(standing: LadderPosition, ahead: int = 0) -> bool:
    """Whether the present stage, or one as far ahead as that, may go to the contact."""
    return standing.stage <= _CONTACT_AT <= standing.stage + ahead or bool(standing.failed)


def targets_of(standing: LadderPosition, has_owner: bool, has_contact: bool) -> tuple[Target, ...]:
    """Whom the present stage goes to; nobody where those are still waiting for an earlier message.

    `has_owner`: Slack knows the owner. Where Slack refused everybody who should get it, it goes to anyone who is
    left, so that a lost account does not end the reminding.
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
