"""Jobs go ahead under limits or wait in line, and know when they are expected to start."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from costguard.jobs.decide.limits.expected_starts import expected_starts
from costguard.jobs.decide.limits.in_use import NOTHING, InUse, LimitedBy, PresentUse, limits_on, of_vm
from costguard.jobs.decide.limits.queue import PastUse, Turn, Wanted, line_up
from costguard.jobs.decide.limits.queue_words import why_it_waits
from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.money import Money

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ANA, BEN = "ana@example.com", "ben@example.com"
GPUS = FleetLimit("gpus", Scope(), gpus=8)
DOLLAR = Money.of(1)


def by(owner: str = ANA, team: str = "", preset: str = "t4") -> LimitedBy:
    return LimitedBy("p", preset, owner, team)


def wants(job: str, gpus: int = 1, owner: str = ANA, **given: object) -> Wanted:
    values: dict[str, object] = {
        "one": of_vm(gpus, DOLLAR),
        "most": 1,
        "least": 1,
        "created_at": NOW - HOUR + timedelta(minutes=int(job[1:])),
        "since": NOW,
    }
    return Wanted(job, f"job{job[1:]}", by(owner), **{**values, **given})  # type: ignore[arg-type]


def uses(gpus: int, owner: str = ANA, job: str = "r1", ends_at: datetime | None = None) -> PresentUse:
    return PresentUse(by(owner), replace(of_vm(gpus, DOLLAR)), job, f"run {job}", ends_at)


def counts(turns: list[Turn]) -> dict[str, int]:
    return {turn.wanted.job: turn.count for turn in turns}


def order(turns: list[Turn]) -> list[str]:
    return [turn.wanted.job for turn in turns]


def test_a_big_job_is_not_passed_by_small_ones() -> None:
    """Nobody who comes later takes a part of it, though there is room for small jobs."""
    turns = line_up([GPUS], [uses(5)], [wants("j1", 4), wants("j2", 1), wants("j3", 1)], NOW)
    assert counts(turns) == {"j1": 0, "j2": 0, "j3": 0}
    assert turns[1].ahead == ("j1",)


def test_a_later_job_passes_where_it_needs_nothing_of_what_is_lacking() -> None:
    """A job without GPUs goes ahead of one that waits for them."""
    turns = line_up([GPUS], [uses(8)], [wants("j1", 4), wants("j2", 0)], NOW)
    assert counts(turns) == {"j1": 0, "j2": 1}


def test_priority_comes_before_a_lost_vm_and_that_before_age() -> None:
    """A second VM of a move comes last, whatever its priority."""
    some = [wants("j1"), wants("j2", is_recovering=True), wants("j3", priority=1), wants("j4", is_extra=True)]
    assert order(line_up([GPUS], [], some, NOW)) == ["j3", "j2", "j1", "j4"]


def test_owners_take_turns_by_what_they_have_in_use() -> None:
    """Ana's three were first, and Ben gets his in between."""
    some = [wants("j1"), wants("j2"), wants("j3"), wants("j4", owner=BEN), wants("j5", owner=BEN)]
    assert order(line_up([GPUS], [], some, NOW)) == ["j1", "j4", "j2", "j5", "j3"]


def test_past_use_counts_for_a_day() -> None:
    """The owner who had the one free place has it last."""
    one = replace(GPUS, gpus=1)
    past = [PastUse(by(ANA), InUse(3600, 3600, DOLLAR.times(3600)))]
    turns = line_up([one], [], [wants("j1"), wants("j2", owner=BEN)], NOW, past)
    assert counts(turns) == {"j2": 1, "j1": 0}


def test_an_owner_with_nothing_waits_a_day_behind_priorities() -> None:
    """The job comes first after a day; not where its owner has a VM."""
    old = wants("j1", owner=BEN, since=NOW - 24 * HOUR)
    urgent = [wants(f"j{number}", priority=100) for number in range(2, 5)]
    assert order(line_up([GPUS], [], [old, *urgent], NOW))[0] == "j1"
    young = replace(old, since=NOW - 23 * HOUR)
    assert order(line_up([GPUS], [], [young, *urgent], NOW))[-1] == "j1"
    assert order(line_up([GPUS], [uses(1, BEN)], [old, *urgent], NOW))[-1] == "j1"


def test_a_persons_own_limit_holds_up_nobody_else() -> None:
    """Nothing of the common limit is kept for a job that waits for its owner's."""
    own = FleetLimit("each", Scope(), for_each=LimitPart.OWNER, gpus=2)
    some = [wants(f"j{number}", owner=ANA) for number in range(1, 6)] + [wants("j6", 2, owner=BEN)]
    turns = line_up([replace(GPUS, gpus=4), own], [uses(2, ANA)], some, NOW)
    assert counts(turns)["j6"] == 1
    assert next(turn.bucket for turn in turns if not turn.count) == ("each", ANA)


def test_narrow_limits_are_kept_while_a_wide_one_is_waited_for() -> None:
    """Otherwise a later job of the same owner could take the one place again and again."""
    own = FleetLimit("each", Scope(), for_each=LimitPart.OWNER, vms=1)
    of_t4 = FleetLimit("t4", Scope(preset="t4"), gpus=1)
    other = replace(wants("j2", owner=ANA), by=by(ANA, preset="cpu"))
    turns = line_up([of_t4, own], [uses(1, BEN)], [wants("j1", owner=ANA), other], NOW)
    assert counts(turns) == {"j1": 0, "j2": 0}
    assert {turn.wanted.job: turn.bucket and turn.bucket.limit for turn in turns} == {"j1": "t4", "j2": "each"}


def test_a_job_that_exceeds_a_limit_alone_keeps_nothing() -> None:
    """It says so, and the next one goes ahead."""
    turns = line_up([GPUS], [], [wants("j1", 16), wants("j2", 8)], NOW)
    assert (turns[0].never, turns[0].short, counts(turns)["j2"]) == (True, "gpus", 1)


def test_a_range_goes_ahead_with_what_fits() -> None:
    """It waits only where its least does not fit."""
    turns = line_up([GPUS], [uses(3)], [wants("j1", 2, most=8, least=2)], NOW)
    assert turns[0].count == 2
    assert line_up([GPUS], [uses(5)], [wants("j1", 2, most=8, least=2)], NOW)[0].count == 0


def test_extra_vms_come_last_and_keep_nothing() -> None:
    """A move that does not fit keeps no place."""
    turns = line_up([GPUS], [uses(7)], [wants("j1", is_extra=True, priority=9), wants("j2")], NOW)
    assert counts(turns) == {"j2": 1, "j1": 0}
    turns = line_up([GPUS], [uses(7)], [wants("j1", 2, is_extra=True), wants("j2", 0, is_extra=True)], NOW)
    assert counts(turns) == {"j1": 0, "j2": 1}


def test_vms_of_unknown_price_go_ahead_one_job_at_a_time() -> None:
    """VMs with a price take nothing of a limit of dollars while one waits that has none."""
    money = FleetLimit("money", Scope(), dollars_per_hour=Money.of(5))
    unknown = of_vm(1, None)
    some = [wants("j1", one=unknown), wants("j2", one=unknown), wants("j3")]
    turns = line_up([money], [], some, NOW)
    assert counts(turns) == {"j1": 1, "j2": 0, "j3": 0}
    assert "VM's price is not known" in why_it_waits(turns[1], None, {}, NOW)
    assert counts(line_up([money], [], [wants("j1", one=unknown)], NOW)) == {"j1": 1}


def test_dollars_are_exact() -> None:
    """A nano-dollar too much is too much."""
    money = FleetLimit("money", Scope(), dollars_per_hour=Money.of("2"))
    assert counts(line_up([money], [uses(1)], [wants("j1")], NOW)) == {"j1": 1}
    dearer = wants("j1", one=of_vm(1, Money(DOLLAR.nanos + 1)))
    assert counts(line_up([money], [uses(1)], [dearer], NOW)) == {"j1": 0}


def test_other_vms_count_where_the_limit_says_so() -> None:
    """VMs that no job launched count unless the limit is for jobs alone."""
    other = PresentUse(by(""), of_vm(8, DOLLAR))
    assert counts(line_up([GPUS], [other], [wants("j1")], NOW)) == {"j1": 0}
    assert counts(line_up([replace(GPUS, counts_others=False)], [other], [wants("j1")], NOW)) == {"j1": 1}


def test_limits_apply_by_their_scope_and_narrow_ones_come_first() -> None:
    """Addresses are compared in lower case; VMs of no team are under no limit of teams."""
    limits = [
        GPUS,
        FleetLimit("vision", Scope(team="vision", preset="t4"), vms=1),
        FleetLimit("teams", Scope(), for_each=LimitPart.TEAM, vms=1),
        FleetLimit("ben", Scope(owner="Ben@Example.com"), vms=1),
    ]
    names = [(limit.name, bucket.value) for limit, bucket in limits_on(limits, by(BEN, "vision"))]
    assert names == [("teams", "vision"), ("vision", ""), ("ben", ""), ("gpus", "")]
    assert [limit.name for limit, _ in limits_on(limits, by(ANA))] == ["gpus"]


def test_it_says_why_and_when() -> None:
    """The sentence names its place, two jobs before it, and the job whose end gives it its place."""
    running = [uses(4, job="r1", ends_at=NOW + HOUR), uses(4, job="r2", ends_at=NOW + 3 * HOUR)]
    some = [wants("j1", 4, takes=HOUR), wants("j2", 4, takes=HOUR), wants("j3", 8)]
    turns = line_up([GPUS], running, some, NOW)
    starts = expected_starts([GPUS], running, turns, NOW)
    assert [starts[job].at for job in ("j1", "j2", "j3")] == [NOW + HOUR, NOW + 2 * HOUR, NOW + 3 * HOUR]
    titles = {one.job: one.title for one in some}
    assert why_it_waits(turns[2], starts["j3"], titles, NOW) == (
        "limit gpus: 8 of 8 GPUs in use, and it needs 8 GPUs; third in line, behind jobs job1 and job2; expected to "
        "start around 15:00 UTC, when job run r2 is expected to end"
    )


def test_an_end_that_is_unknown_or_past_makes_the_start_unknown() -> None:
    """The sentence names the job whose end is not known."""
    for ends_at in (None, NOW - HOUR):
        running = [uses(8, ends_at=ends_at)]
        turns = line_up([GPUS], running, [wants("j1")], NOW)
        start = expected_starts([GPUS], running, turns, NOW)["j1"]
        assert (start.at, start.why_unknown) == (None, "when job run r1 ends is not known")


def test_amounts_add_up() -> None:
    """VMs of unknown cost are counted and cost nothing."""
    assert of_vm(2, DOLLAR).times(3) + of_vm(1, None) - of_vm(2, DOLLAR) == InUse(3, 5, DOLLAR.times(2), 1)
    assert NOTHING.times(5) == NOTHING
