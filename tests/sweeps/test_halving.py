"""Halving: which members are stopped by their curves, in tables, and on recorded curves where these are here."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from statistics import mean

import pytest
from tests.progress.curves import CURVES
from tests.sweeps import halving_replay
from tests.sweeps.halving_replay import Replayed, four_at_once, half_of, in_step, recorded, replay, sweeps

from costguard.model.sweep import Halving
from costguard.sweeps.halving import Loser, MemberCurve, losers
from costguard.sweeps.stopping import reason_text

TOTAL = 1000.0


def curve(number: int, level: float, until: float = 500, noise: float = 0.0, **how: bool) -> MemberCurve:
    """An evaluation every 25 steps, which falls to a level."""
    chance = random.Random(number)
    steps = [25.0 * place for place in range(1, int(until // 25) + 1)]
    values = [level + 5 / (1 + step / 50) + chance.gauss(0, noise) for step in steps]
    return MemberCurve(number, tuple(steps), tuple(values), **how)


def stopped(curves: Sequence[MemberCurve], total: float = TOTAL, size: int | None = None) -> list[int]:
    return [loser.number for loser in losers(3, curves, total, size or len(curves))]


def test_members_that_are_clearly_behind_are_stopped() -> None:
    """The best third is sure to go on, whatever the others do."""
    assert stopped([curve(number, float(number)) for number in range(1, 10)]) == [4, 5, 6, 7, 8, 9]


def test_later_fewer_are_sure_to_go_on() -> None:
    """The share is one in nine from 60 % on."""
    assert stopped([curve(number, float(number), until=700) for number in range(1, 10)]) == list(range(2, 10))


def test_equal_members_are_not_all_stopped() -> None:
    """Three of nine that are the same go on: those with the lowest numbers."""
    assert stopped([curve(number, 1.0) for number in range(1, 10)]) == [4, 5, 6, 7, 8, 9]


def test_loser_says_how_it_stood() -> None:
    """It was compared at the last fortieth that it has passed, with all that had come so far."""
    loser = losers(3, [curve(number, float(number), until=520) for number in range(1, 10)], TOTAL, 9)[-1]
    assert (loser.number, loser.step, loser.place, loser.compared, loser.kept) == (9, 500.0, 9, 9, 3)
    assert loser.value == pytest.approx(9 + 5 / 11)


def test_reason_is_one_sentence() -> None:
    """A metric of which higher is better is shown as it was printed."""
    loser = Loser(4, 3000.0, 2.31, 7, 9, 3)
    assert reason_text(loser, Halving(3, "val_loss", "lower"), "step") == (
        "stopped at step 3,000 by halving: its val_loss of 2.31 is 7th of 9, and the best 3 go on"
    )
    higher = reason_text(Loser(4, 2.0, -0.5, 2, 3, 1), Halving(3, "", "higher"), "epoch")
    assert higher == "stopped at epoch 2 by halving: its metric of 0.5 is 2nd of 3, and the best goes on"


def test_noise_keeps_members_that_are_close() -> None:
    """They may still gain more by chance than they are behind."""
    assert stopped([curve(number, 1 + 0.001 * number, noise=0.5) for number in range(1, 10)]) == []


def test_member_that_catches_up_is_kept() -> None:
    """It is behind, and comes nearer so fast that it may be ahead in the end."""
    late = MemberCurve(9, curve(9, 1).steps, tuple(8 - step / 100 for step in curve(9, 1).steps))
    others = [curve(number, 1 + 0.01 * number) for number in range(1, 9)]
    assert 9 not in stopped([*others, late])
    flat = MemberCurve(9, late.steps, tuple(4.0 + 5 / (1 + step / 50) for step in late.steps))
    assert 9 in stopped([*others, flat])


def test_nobody_is_stopped_before_enough_have_come() -> None:
    """Three of nine are sure to go on, so that three that are ahead at the same step are waited for."""
    far = [curve(number, float(number)) for number in (1, 2)]
    assert stopped([*far, curve(9, 9.0)], size=9) == []
    assert stopped([*far, curve(3, 3.0), curve(9, 9.0)], size=9) == [9]


def test_member_that_lags_behind_is_compared_at_its_own_step() -> None:
    """The values of the others at its step count, not those that they have now."""
    others = [curve(number, 2.0, until=900) for number in range(1, 9)]
    assert 9 not in stopped([*others, curve(9, 1.0, until=200)])
    assert 9 in stopped([*others, curve(9, 8.0, until=200)])


def test_member_ahead_of_a_step_is_not_compared_with_one_that_is_not_there() -> None:
    """It is alone at step 900: those at 300 say nothing about it."""
    assert 9 not in stopped([curve(9, 9.0, until=900), *(curve(number, 1.0, until=300) for number in range(1, 9))])


@pytest.mark.parametrize("how", ["unknown", "few", "kept", "end", "begin"])
def test_member_is_left_alone(how: str) -> None:
    """It has no curve, too few evaluations, a person who keeps it, or is at its end or its beginning."""
    others = [curve(number, float(number), until=1000) for number in range(1, 9)]
    members = {
        "unknown": MemberCurve(9, (), ()),
        "few": MemberCurve(9, (100.0, 500.0), (9.0, 9.0)),
        "kept": curve(9, 9.0, may_stop=False),
        "end": curve(9, 9.0, until=1000),
        "begin": curve(9, 9.0, until=75),
    }
    assert 9 not in stopped([*others, members[how]])


def test_members_that_failed_lead_nobody() -> None:
    """Where the best have failed, those after them are the ones to go on."""
    failed = [curve(number, float(number), leads=False, counts=False, may_stop=False) for number in range(1, 7)]
    assert stopped([*failed, *(curve(number, float(number)) for number in (7, 8, 9))], size=9) == []


def test_members_that_halving_stopped_take_places_and_lead_nobody() -> None:
    """A worse member is stopped for the one that is left, and the one that is left never."""
    gone = [curve(number, float(number), leads=False, may_stop=False) for number in (2, 3, 4)]
    assert stopped([*gone, curve(1, 1.0), curve(9, 9.0)], size=9) == [9]
    assert stopped([*gone, curve(9, 9.0)], size=9) == []


def test_unknown_length_stops_nobody() -> None:
    """There are no equal stages without the number of steps."""
    assert stopped([curve(number, float(number)) for number in range(1, 10)], total=0) == []


@pytest.mark.parametrize("seed", range(20))
def test_best_of_those_that_are_farthest_always_goes_on(seed: int) -> None:
    """No one is ahead of it, whatever the curves are."""
    chance = random.Random(seed)
    curves = [curve(number, chance.uniform(1, 9), until=chance.choice((200, 500, 800))) for number in range(1, 10)]
    gone = stopped(curves)
    far = max(one.reached for one in curves)
    best = min((one for one in curves if one.reached == far), key=lambda one: min(one.values))
    assert best.number not in gone
    assert len(gone) < len(curves)
    left = [one for one in curves if one.number not in gone]
    assert set(stopped([*left], size=9)) <= set(range(1, 10)) - set(gone)


@cache
def _replayed(size: int) -> Replayed:
    if not CURVES.exists():
        pytest.skip("the recorded curves are not here: ../shared/loss-curves")
    return replay(sweeps(half_of(recorded(), 1), size, 30, seed=8), in_step)


@pytest.mark.parametrize("size", halving_replay.SIZES)
def test_recorded_winner_is_kept(size: int) -> None:
    """The winner, or one that ends equally well, goes on in sweeps that no figure was chosen by."""
    assert _replayed(size).of_all(_replayed(size).kept) >= 0.985


def test_recorded_sweeps_save_two_fifths() -> None:
    """The share of all members' steps, over both sizes."""
    assert mean(_replayed(size).of_all(_replayed(size).saved) for size in halving_replay.SIZES) >= 0.4


def test_recorded_winner_is_kept_where_members_come_in_turn() -> None:
    """Four at a time, each at a pace of its own: less is saved, and no more is lost."""
    _replayed(9)
    done = replay(sweeps(half_of(recorded(), 1), 9, 5, seed=8), four_at_once)
    assert done.of_all(done.kept) >= 0.98
    assert done.of_all(done.saved) > 0.1
