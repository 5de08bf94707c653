"""The time of jobs is divided: each second once, and each nano-dollar once."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at

from costguard.model.money import Money, Priced
from costguard.spend.goodput import (
    NO_GOODPUT,
    BilledVM,
    CommandRun,
    JobHistory,
    TimeUse,
    added,
    divided,
    goodput,
    parts_of,
    within,
)

NOW = at("12:00")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RATE = Money.of("2")


def job(
    *runs: CommandRun,
    vms: tuple[BilledVM, ...] = (),
    ended_at: datetime | None = None,
    is_success: bool = False,
    saved_at: datetime | None = None,
    may_have_saved: bool = False,
) -> JobHistory:
    """Launched at 02:00."""
    names = ("j1", "lab", "t4", "ada@lab.example")
    return JobHistory(*names, at("02:00"), ended_at, is_success, runs, vms, saved_at, may_have_saved)


def vm(began: str, ended: str | None, rate: Money | None = RATE) -> BilledVM:
    return BilledVM(at(began), None if ended is None else at(ended), 4, rate)


def uses(history: JobHistory) -> list[tuple[str, str, str]]:
    """Neighbours of one use together, as `(use, from, to)`."""
    listed: list[tuple[str, str, str]] = []
    for part in parts_of(history, NOW):
        begin, end = f"{part.began:%H:%M}", f"{part.ended:%H:%M}"
        if listed and listed[-1][0] == part.use:
            listed[-1] = (listed[-1][0], listed[-1][1], end)
        else:
            listed.append((part.use.value, begin, end))
    return listed


def test_a_job_that_succeeded_at_once() -> None:
    """Waiting for a VM, its start, the command, and its VM's end, also after the job's own."""
    history = job(
        CommandRun(at("02:15"), at("08:00")), vms=(vm("02:05", "08:10"),), ended_at=at("08:02"), is_success=True
    )
    assert uses(history) == [
        ("waiting", "02:00", "02:05"),
        ("starting", "02:05", "02:15"),
        ("kept", "02:15", "08:00"),
        ("ending", "08:00", "08:10"),
    ]


def test_a_preemption_loses_the_work_since_its_checkpoint() -> None:
    """The work before the checkpoint stands, and the next VM starts again."""
    history = job(
        CommandRun(at("02:15"), at("05:00"), lost=30 * MINUTE),
        CommandRun(at("05:20"), at("09:00")),
        vms=(vm("02:05", "05:00"), vm("05:10", "09:00")),
        ended_at=at("09:00"),
        is_success=True,
    )
    assert uses(history)[2:] == [
        ("kept", "02:15", "04:30"),
        ("lost", "04:30", "05:00"),
        ("waiting", "05:00", "05:10"),
        ("starting", "05:10", "05:20"),
        ("kept", "05:20", "09:00"),
    ]


def test_a_loss_can_reach_back_over_several_runs() -> None:
    """A checkpoint that was found torn takes the run before it too, and a start from zero takes everything."""
    torn = job(
        CommandRun(at("02:15"), at("05:00")),
        CommandRun(at("05:20"), at("06:00"), lost=70 * MINUTE),
        CommandRun(at("06:20"), None),
        vms=(vm("02:05", "05:00"), vm("05:10", "06:00"), vm("06:10", None)),
        saved_at=at("11:00"),
    )
    assert ("lost", "04:30", "05:00") in uses(torn)
    assert ("lost", "05:20", "06:00") in uses(torn)
    assert uses(torn)[-2:] == [("kept", "06:20", "11:00"), ("unsaved", "11:00", "12:00")]
    zero = job(
        CommandRun(at("02:15"), at("05:00"), lost=10 * MINUTE),
        CommandRun(at("05:20"), at("06:00"), lost=40 * MINUTE + 155 * MINUTE),
        CommandRun(at("06:20"), at("07:00")),
        ended_at=at("07:00"),
        is_success=True,
    )
    assert [part for part in uses(zero) if part[0] == "kept"] == [("kept", "06:20", "07:00")]


def test_a_job_that_failed_keeps_what_it_saved() -> None:
    """The rest led to nothing; without a checkpoint that is all of it, and where nobody could look it is not known."""
    run, ended_at = CommandRun(at("02:00"), at("05:00")), at("05:00")
    saved = job(run, ended_at=ended_at, saved_at=at("04:00"))
    assert uses(saved) == [("kept", "02:00", "04:00"), ("lost", "04:00", "05:00")]
    assert uses(job(run, ended_at=ended_at)) == [("lost", "02:00", "05:00")]
    assert uses(job(run, ended_at=ended_at, may_have_saved=True)) == [("unsaved", "02:00", "05:00")]


def test_a_vm_that_never_ran_the_command_was_starting() -> None:
    """A host that failed while it booted, and a queue before and after it."""
    assert uses(job(vms=(vm("02:05", "02:20"),))) == [
        ("waiting", "02:00", "02:05"),
        ("starting", "02:05", "02:20"),
        ("waiting", "02:20", "12:00"),
    ]


def test_the_cost_follows_the_vms_rates() -> None:
    """An hour lost on demand is dearer than an hour kept on Spot; disks are divided with it."""
    history = job(
        CommandRun(at("02:00"), at("03:00")),
        CommandRun(at("04:00"), at("05:00"), lost=HOUR),
        vms=(vm("02:00", "03:00", Money.of("1")), vm("04:00", "05:00", Money.of("3"))),
        ended_at=at("05:00"),
        is_success=True,
    )
    figures = goodput(parts_of(history, NOW), Priced(Money.of("4.40")))
    assert (figures.costs[TimeUse.KEPT], figures.costs[TimeUse.LOST]) == (Money.of("1.10"), Money.of("3.30"))
    assert figures.kept_share_of_paid == 5_000
    assert figures.useful_gpu_time == 4 * HOUR
    assert figures.cost_per_useful_gpu_hour == Money.of("1.10")


def test_what_cannot_be_divided_says_so() -> None:
    """No useful GPU time, a VM without a price, and disks that bill while no VM does."""
    waiting = goodput(parts_of(job(), NOW), Priced(Money.of("0.10")))
    assert waiting.costs[TimeUse.WAITING] == Money.of("0.10")
    assert (waiting.cost_per_useful_gpu_hour, waiting.kept_share_of_paid) == (None, None)
    run = job(CommandRun(at("02:00"), at("03:00")), vms=(vm("02:00", "03:00"),), ended_at=at("03:00"), is_success=True)
    assert goodput(parts_of(run, NOW), Priced(Money.of("1"), whole=False)).cost_per_useful_gpu_hour is None
    assert set(NO_GOODPUT.shares.values()) == {0}


minutes = st.integers(-30, 700).map(lambda minute: at("02:00") + minute * MINUTE + timedelta(microseconds=minute * 7))
ends = st.none() | minutes
losses = st.none() | st.integers(0, 90_000).map(lambda seconds: timedelta(seconds=seconds))
runs = st.builds(CommandRun, minutes, ends, losses)
vms = st.builds(BilledVM, minutes, ends, st.integers(0, 8), st.none() | st.integers(0, 10**11).map(Money))
histories = st.builds(
    lambda runs, vms, ended_at, is_success, saved_at, may: JobHistory(
        "j", "lab", "t4", "", at("02:00"), ended_at, is_success, tuple(runs), tuple(vms), saved_at, may
    ),
    st.lists(runs, max_size=5).map(lambda runs: sorted(runs, key=lambda run: run.began)),
    st.lists(vms, max_size=5),
    ends,
    st.booleans(),
    ends,
    st.booleans(),
)


@given(histories, st.integers(0, 10**13))
def test_every_second_and_every_nano_dollar_counts_once(history: JobHistory, nanos: int) -> None:
    """The parts are the job's time without a gap, whatever the clocks said, and shares and costs add up exactly."""
    parts = parts_of(history, NOW)
    assert all(one.ended == other.began for one, other in pairwise(parts))
    assert all(part.span > timedelta() for part in parts)
    if parts:
        assert parts[0].began == history.created_at
    figures = goodput(parts, Priced(Money(nanos)))
    last = max(history.created_at, history.ended_at or NOW)
    assert figures.span >= last - history.created_at
    assert sum((part.span for part in parts), timedelta()) == figures.span
    assert sum(figures.shares.values()) == (10_000 if parts else 0)
    assert figures.cost == Priced(Money(nanos))
    assert history.is_success is False or figures.spans[TimeUse.UNSAVED] == timedelta()


@given(histories, minutes)
def test_a_job_cut_at_midnight_is_the_same_job(history: JobHistory, cut: datetime) -> None:
    """Months hold the parts of a job, and together they hold all of it."""
    parts = parts_of(history, NOW)
    begin, end = at("00:00"), at("23:59")
    halves = added([goodput(within(parts, begin, cut), Priced()), goodput(within(parts, cut, end), Priced())])
    assert halves.spans == goodput(within(parts, begin, end), Priced()).spans
    assert halves.useful_gpu_time == goodput(parts, Priced()).useful_gpu_time


@given(st.integers(0, 10**12), st.dictionaries(st.integers(0, 9), st.integers(0, 10**15), max_size=6))
def test_a_whole_is_divided_without_a_rest(total: int, weights: dict[int, int]) -> None:
    """Each share is at most one off, and what has no weight gets nothing."""
    shares = divided(total, weights)
    of_all = sum(weights.values())
    assert sum(shares.values()) == (total if of_all else 0)
    assert all(abs(share * of_all - total * weights[key]) <= of_all for key, share in shares.items())
    assert all(shares[key] == 0 for key, weight in weights.items() if weight == 0)
