"""The ladder of reminders."""

from __future__ import annotations

import pytest
from tests.builders import at
from tests.reminders.reminded import DAY, DUE, HOUR, sent

from costguard.model.reminder import Sent, Target
from costguard.reminders.ladder import LadderPosition, may_need_contact, next_at, standing_of, targets_of

OWNER, CHANNEL, CONTACT = Target
EVERY = 4 * HOUR


def climbed(stages: int) -> LadderPosition:
    return standing_of([sent(stage, DUE + stage * EVERY) for stage in range(stages)], 0)


def targets(standing: LadderPosition, owner: bool = True, contact: bool = True) -> tuple[Target, ...]:
    return targets_of(standing, owner, contact)


def test_the_escalation() -> None:
    """The owner twice, then the channel with them, once the contact too, then owner and channel for ever."""
    assert [targets(climbed(stage)) for stage in range(6)] == [
        (OWNER,),
        (OWNER,),
        (OWNER, CHANNEL),
        (OWNER, CHANNEL, CONTACT),
        (OWNER, CHANNEL),
        (OWNER, CHANNEL),
    ]
    assert targets(climbed(3), contact=False) == (OWNER, CHANNEL)


def test_what_is_nobodys_goes_to_the_channel() -> None:
    """The channel stands in for an owner whom nobody knows."""
    result = [targets(climbed(stage), owner=False) for stage in range(5)]
    assert result == [(CHANNEL,), (CHANNEL,), (CHANNEL,), (CHANNEL, CONTACT), (CHANNEL,)]


def test_silence_is_counted_from_the_last_acceptance() -> None:
    """The next stage is one interval after the last was accepted, and from the fifth on a day at least."""
    assert next_at(climbed(0), DUE, EVERY) == DUE
    late = standing_of([sent(0, at("15:00"))], 0)
    assert next_at(late, DUE, EVERY) == at("19:00")
    assert next_at(climbed(3), DUE, EVERY) == DUE + 3 * EVERY
    assert next_at(climbed(4), DUE, EVERY) == DUE + 3 * EVERY + DAY
    assert next_at(climbed(4), DUE, 7 * DAY) == DUE + 3 * EVERY + 7 * DAY
    assert next_at(late, DUE + DAY, EVERY) == DUE + DAY


def test_an_answer_starts_anew() -> None:
    """Stages of earlier cycles do not count in this one."""
    assert standing_of([sent(0, DUE), sent(1, DUE)], 1) == LadderPosition()
    assert standing_of([sent(0, DUE), sent(0, DUE, cycle=1)], 1).stage == 1


def test_one_acceptance_is_enough() -> None:
    """A stage to three targets is one stage, accepted with the first of them; the others are waited for alone."""
    messages = [
        sent(0, DUE),
        sent(1, DUE),
        sent(2, at("19:00"), OWNER),
        sent(2, at("18:30"), CONTACT),
        sent(2, None, CHANNEL),
    ]
    result = standing_of(messages, 0)
    assert (result.stage, result.warned[2].at, result.waiting, result.is_intended) == (
        3,
        at("18:30"),
        frozenset({CHANNEL}),
        False,
    )
    assert targets(result) == (OWNER, CONTACT)


def test_while_it_waits_nothing_follows() -> None:
    """A stage that nobody has yet is the present one, and it is intended."""
    result = standing_of([sent(0, DUE), sent(1)], 0)
    assert (result.stage, result.is_intended, result.waiting) == (1, True, frozenset({OWNER}))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([sent(0, failed=True)], (CHANNEL,)),
        ([sent(0, failed=True), sent(0, None, CHANNEL, failed=True)], (CONTACT,)),
        ([sent(0, None, target, failed=True) for target in Target], ()),
    ],
)
def test_who_cannot_be_reached_is_stood_in_for(messages: list[Sent], expected: tuple[Target, ...]) -> None:
    """A recipient whom Slack refused for good was not warned: the same stage goes to the next who is left."""
    result = standing_of(messages, 0)
    assert (result.stage, result.is_intended) == (0, False)
    assert targets(result) == expected
    assert may_need_contact(result)


def test_one_failure_of_several_is_left_out() -> None:
    """The others have it, and the ladder climbs."""
    climb = [sent(0, DUE), sent(1, DUE)]
    assert targets(standing_of([*climb, sent(2, None, CHANNEL, failed=True)], 0)) == (OWNER,)
    assert standing_of([*climb, sent(2, None, CHANNEL, failed=True), sent(2, DUE)], 0).stage == 3


def test_when_the_contact_must_be_known() -> None:
    """The contact must be known at its stage, and one before to look it up in time."""
    assert [may_need_contact(climbed(stage)) for stage in range(5)] == [False, False, False, True, False]
    assert [may_need_contact(climbed(stage), ahead=1) for stage in range(5)] == [False, False, True, True, False]
