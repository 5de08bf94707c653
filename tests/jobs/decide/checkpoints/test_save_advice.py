"""The advice on a job's checkpoint interval: what it reads, what it says, and when it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import HOUR, MINUTE, NOW, attempt, interruption
from tests.jobs.world import ANA, world

from costguard.deadlines.hazards import BINS
from costguard.jobs.decide.checkpoints.save_advice import (
    MeasuredSave,
    SaveAdvice,
    SaveCase,
    achieved_since,
    achieved_text,
    interval_in_use,
    noticed_share,
    save_advice,
)
from costguard.jobs.reports.checkpoints.save_interval import advice_of, usual_start
from costguard.jobs.rows import attempts
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.recovery import drills, interruptions
from costguard.model.attempt import Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import LONGEST_NOTICE, NO_NOTICE
from costguard.model.money import Money
from costguard.model.reported.drill import Drill, DrillState, SavedOnNotice

SECOND = timedelta(seconds=1)
SAVE = MeasuredSave(60 * SECOND)


def every(span: timedelta, count: int, first: datetime = at("00:00")) -> list[datetime]:
    return [first + place * span for place in range(count)]


def case(**given: Any) -> SaveCase:
    """A job that saves for a minute after each two hours, on VMs of which one in five hours is preempted."""
    values: dict[str, Any] = {
        "written": every(2 * HOUR + MINUTE, 4),
        "interruptions": (),
        "drills": (),
        "save": SAVE,
        "start": 6 * MINUTE,
        "hazard": (0.2,) * BINS,
        "notice": LONGEST_NOTICE,
        "on_notice": SavedOnNotice(),
        "work": 100 * HOUR,
        "rate": Money.of("2.00"),
    }
    return SaveCase(**{**values, **given})


def advised(**given: Any) -> SaveAdvice:
    advice = save_advice(case(**given))
    assert advice is not None
    return advice


def test_sentence_has_both_intervals_with_their_loss() -> None:
    """The sum over k, by hand and of a life of 5 h, of 2 h x exp(-0.2 (0.1 h + k x 2 h 1 min)) is
    2 exp(-0.2 x 2.11667) / (1 - exp(-0.2 x 2.01667)) = 3.9463 h that are kept.
    """
    advice = advised()
    assert advice.uses == 2 * HOUR
    assert advice.loses_share == pytest.approx(1 - 3.9463 / 5, abs=2e-4)
    assert advice.expected is not None
    assert advice.loses is not None
    assert float(str(advice.expected).strip("$")) == pytest.approx(200 * 5 / 3.9463, abs=0.05)
    assert advice.expected - advice.loses == Money.of("200")
    assert advice.is_worth
    assert advice.text.startswith("saving every 2 h loses $53.")
    assert advice.text.endswith(f"; every 24 min would lose {advice.would_lose}")
    assert advice.best == pytest.approx(24 * MINUTE, abs=MINUTE)


def test_without_the_work_shares_are_said() -> None:
    """The cost of the whole job is not known then, and no dollars are made up."""
    advice = advised(work=None)
    assert (advice.loses, advice.would_lose, advice.expected) == (None, None, None)
    assert advice.text == (
        "saving every 2 h loses 21% of its cost to preemptions and saves; every 24 min would lose 10%"
    )


@pytest.mark.parametrize("unknown", ["save", "start", "rate"])
def test_what_is_unknown_is_no_zero(unknown: str) -> None:
    """Nothing is said without a measured save, a start or a price."""
    assert save_advice(case(**{unknown: None})) is None


@pytest.mark.parametrize("written", [[], every(HOUR, 1)])
def test_interval_is_unknown_before_two_checkpoints(written: Sequence[datetime]) -> None:
    """A single checkpoint shows no interval."""
    assert save_advice(case(written=written)) is None


def test_preemption_is_no_part_of_the_interval() -> None:
    """The gap across it counts neither as work nor as a wait."""
    written = [*every(21 * MINUTE, 3), *every(21 * MINUTE, 3, at("05:00"))]
    cut = interruption(happened_at=at("00:50"))
    assert interval_in_use(case(written=written, interruptions=[cut])) == 20 * MINUTE
    only_across = [at("00:00"), at("03:00")]
    assert interval_in_use(case(written=only_across, interruptions=[interruption(happened_at=at("02:00"))])) is None


def test_save_of_a_drill_is_no_part_of_the_interval() -> None:
    """A drill asks for a save, and its restart is no work."""
    held = Drill("j1", 1, NOW, ANA, DrillState.OVER, began_at=at("01:00"), ended_at=at("01:05"))
    written = [at("00:00"), at("01:01"), at("03:01"), at("05:02")]
    assert interval_in_use(case(written=written, drills=[held])) == 2 * HOUR


@pytest.mark.parametrize(
    ("seen", "save_s", "notice", "share"),
    [
        (SavedOnNotice(), 60, LONGEST_NOTICE, 0.0),
        (SavedOnNotice(1, 1), 60, LONGEST_NOTICE, 0.5),
        (SavedOnNotice(60, 60), 60, LONGEST_NOTICE, 60 / 61),
        (SavedOnNotice(0, 3), 60, LONGEST_NOTICE, 0.0),
        (SavedOnNotice(3, 3), 60, NO_NOTICE, 0.0),
        (SavedOnNotice(3, 3), 200, LONGEST_NOTICE, 0.0),
    ],
)
def test_saves_on_notice_count_as_far_as_they_were_seen_and_fit(
    seen: SavedOnNotice, save_s: int, notice: timedelta, share: float
) -> None:
    """A notice without a save counts in addition to those that were seen."""
    assert noticed_share(MeasuredSave(save_s * SECOND), notice, seen) == pytest.approx(share)


def test_job_that_saves_on_notice_needs_to_save_less_often() -> None:
    """Saving every 2 h costs hardly more than the best where 60 of 60 notices saved."""
    advice = advised(on_notice=SavedOnNotice(60, 60))
    assert advice.best > 2 * HOUR
    assert not advice.is_worth


def test_change_is_measured_by_what_preemptions_lost_before_and_after() -> None:
    """Host errors do not count; without a change, or a preemption on each side, nothing is said."""
    written = [*every(121 * MINUTE, 4), *every(21 * MINUTE, 6, at("12:00"))]
    lost = [
        interruption(1, happened_at=at("07:30"), lost=80 * MINUTE, lost_cost=Money.of("2.50")),
        interruption(2, happened_at=at("09:30"), lost=40 * MINUTE, lost_cost=Money.of("1.50")),
        interruption(3, happened_at=at("15:00"), lost=9 * MINUTE, lost_cost=Money.of("0.30")),
        interruption(4, happened_at=at("16:00"), lost=90 * MINUTE, outcome=Outcome.HOST_ERROR),
    ]
    assert achieved_text(case(written=written, interruptions=lost)) == (
        "since it saves every 20 min instead of every 2 h, 1 preemption lost 9 min ($0.30); "
        "before, 2 preemptions lost 1 h each ($2.00)"
    )
    assert achieved_text(case(written=written, interruptions=lost[:2])) == ""
    assert achieved_text(case(written=every(21 * MINUTE, 9), interruptions=lost)) == ""


def test_earlier_job_with_the_same_script_is_compared_with() -> None:
    """The change is mostly made at a launch; nothing is said where both save alike, or nothing was lost yet."""
    lost = [interruption(1, happened_at=at("07:30"), lost=60 * MINUTE, lost_cost=Money.of("2.00"))]
    earlier = case(interruptions=lost)
    mine = case(
        written=every(21 * MINUTE, 9), interruptions=[interruption(1, happened_at=at("09:00"), lost=8 * MINUTE)]
    )
    assert achieved_since(earlier, "j0", mine) == (
        "since it saves every 20 min instead of every 2 h as in job j0, 1 preemption lost 8 min; "
        "in that one, 1 preemption lost 1 h ($2.00)"
    )
    assert achieved_since(earlier, "j0", replace(mine, interruptions=())) == ""
    assert achieved_since(replace(earlier, written=every(22 * MINUTE, 9)), "j0", mine) == ""


def test_earlier_job_is_found_by_its_script(database_url: str) -> None:
    """It is another job of the same owner, project and preset, whatever its options."""
    with world(database_url) as w:
        for job_id, apart, lost in (("j1", 2 * HOUR, 50 * MINUTE), ("j2", 21 * MINUTE, 9 * MINUTE)):
            made = w.submit(job_id, work=100 * HOUR, command=("python", "train.py", f"--save={apart}"))
            w.until_up(f"cg-{job_id}-1")
            w.start(f"cg-{job_id}-1")
            began = w.clock.now()
            with w.database.write() as connection:
                (tried,) = attempts.of_jobs(connection, [job_id])[job_id]
                for number in range(5):
                    written = began + number * apart
                    checkpoint_rows.add_checkpoint(connection, job_id, f"gs://x/{number}", written, number, began)
                cut = interruption(happened_at=began - HOUR, lost=lost)
                interruptions.add(connection, replace(cut, attempt_id=tried.id, job_id=job_id, run=-1))
                drills.add(connection, made, ANA, w.clock.now())
            w.say(f"cg-{job_id}-1", ("drill", {"number": 1, "phase": "over", "result": "saved", "saved_s": 60.0}))
            w.clock.advance(24 * HOUR)
        with w.database.read() as connection:
            advice = advice_of(connection, w.clock.now(), "j2")
        assert advice is not None
        assert advice.achieved.startswith("since it saves every 20 min instead of every 1 h 59 min as in job j1, ")
        assert advice.achieved.endswith("1 preemption lost 9 min; in that one, 1 preemption lost 50 min")


def test_start_is_what_vms_billed_before_the_command() -> None:
    """A VM that was started again has its image and data, and does not count."""
    first, again = attempt(), replace(attempt(), restarts=1, made_at=at("10:04"))
    assert usual_start([first, again]) == 4 * MINUTE
    assert usual_start([replace(first, made_at=None)]) is None


def test_job_has_its_advice_once_a_save_was_measured(database_url: str) -> None:
    """The hazard is the prior's, the price that of its VM; a drill shows how long a save takes."""
    with world(database_url) as w:
        job = w.submit(work=100 * HOUR)
        w.until_up("cg-j1-1")
        w.start()
        with w.database.write() as connection:
            for number in range(5):
                written = w.clock.now() + number * 2 * HOUR
                checkpoint_rows.add_checkpoint(connection, job.id, f"gs://x/{number}", written, number, w.clock.now())
        with w.database.read() as connection:
            assert advice_of(connection, w.clock.now(), job.id) is None
        with w.database.write() as connection:
            drills.add(connection, job, ANA, w.clock.now())
        w.say("cg-j1-1", ("drill", {"number": 1, "phase": "over", "result": "saved", "saved_s": 60.0}))
        with w.database.read() as connection:
            advice = advice_of(connection, w.clock.now(), job.id)
        assert advice is not None
        assert advice.uses == 2 * HOUR - MINUTE
        assert advice.best < HOUR
        assert advice.loses is not None


def test_vm_on_demand_gets_no_advice(sqlite_url: str) -> None:
    """It is never preempted; nor is there advice on a job that does not exist."""
    with world(sqlite_url) as w:
        recipe = replace(w.submit().recipe, provisioning_model=ProvisioningModel.STANDARD)
        job = w.submit("j2", recipe=recipe)
        w.until_up("cg-j2-1")
        with w.database.read() as connection:
            assert advice_of(connection, w.clock.now(), job.id) is None
            assert advice_of(connection, w.clock.now(), "none") is None
