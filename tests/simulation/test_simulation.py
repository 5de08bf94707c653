"""Simulated lives with faults, each from its seed: no invariant breaks, and the same seed lives the same life."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.mutants import faults
from tests.simulation.aims import AIMS
from tests.simulation.faults import ORDINARY, RESTORED
from tests.simulation.freezing import frozen_at_each
from tests.simulation.ledgers import Ledgers, opened, price
from tests.simulation.plan import DAY, PlannedFault, draw
from tests.simulation.run import Outcome, live, lived
from tests.simulation.shrink import kind_of, shrunk

# The fewest seeds whose short lives have every kind of fault. `make soak` lives longer, and other seeds.
SEEDS = (221, 303, 1212, 1376, 2594, 2616)
DAYS = 3
SIZE = 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_breaks_no_invariant(ledgers: Ledgers, seed: int) -> None:
    """Days with crashes, outages, lost and silent answers, people and jobs."""
    outcome = live(seed, DAYS, ledgers.fresh(), size=SIZE)
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.counts["passes"] > DAYS
    assert outcome.injected.keys() >= {fault.kind for fault in outcome.plan.faults}


def test_lives_have_every_kind_of_fault() -> None:
    """Guards also end, stay off for hours and stand still, and budgets fill up."""
    plans = [draw(seed, DAYS, SIZE) for seed in SEEDS]
    kills = [kill for plan in plans for kill in plan.kills]
    assert {fault.kind for plan in plans for fault in plan.faults} == {kind.name for kind in ORDINARY}
    assert {kill.freezes for kill in kills} == {True, False}
    assert any(kill.off for kill in kills)
    assert any(plan.budgets for plan in plans)


def test_a_long_life_breaks_no_invariant(ledgers: Ledgers) -> None:
    """The life has few VMs: across the end of a month, of budgets' periods, and of summer time in Europe and
    America.
    """
    outcome = live(33, 14, ledgers.fresh(), size=2)
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.plan.start < datetime(2026, 10, 25, tzinfo=UTC)
    assert outcome.plan.end > datetime(2026, 11, 2, tzinfo=UTC)
    assert outcome.plan.budgets
    assert outcome.injected.total() > 0


def test_guard_that_was_overtaken_changes_nothing(ledgers: Ledgers) -> None:
    """Guards stand still around writes under their lease, while others take over: only one of them acts."""
    outcome = lived(draw(2, 1, 5, aim_name="takeover"), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.counts["freezes"] > 0
    assert outcome.counts["lease lost"] > 0


def test_two_replicas_share_the_projects(ledgers: Ledgers) -> None:
    """Either is killed or stands still: nothing is missed, done twice, or written by one that lost its projects."""
    outcome = lived(draw(13, 2, 6, aim_name="replicas"), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    counts = outcome.counts
    assert counts["projects looked at by the second replica"] > 10
    assert min(counts[f"second replicas {what}"] for what in ("killed", "frozen", "that came to act")) > 0


@pytest.mark.parametrize(("aim", "seed", "days"), [("fates", 3, 2), ("glances", 3, 2)])
def test_ledger_has_every_run_as_google_had_it(ledgers: Ledgers, aim: str, seed: int, days: int) -> None:
    """VMs that fail, restart, stop gracefully and start again, also while the guard looks at them."""
    outcome = lived(draw(seed, days, 6, aim_name=aim), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.counts["VMs compared"] > 10


def test_guard_whose_machine_sleeps_gives_up_no_vm(ledgers: Ledgers) -> None:
    """The machine's clock is set as well, and its first turn comes before any agent has tried again."""
    outcome = lived(draw(8, 1, 6, aim_name="gaps"), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.injected["guard's machine asleep"] > 0
    assert outcome.injected["clock jumps"] > 0


def test_jobs_vms_between_two_looks_are_priced_by_the_meter(ledgers: Ledgers) -> None:
    """Cancelled, failed at once, done or preempted within minutes: each costs what the simulated cloud's meter says."""
    outcome = lived(draw(1, 1, 6, aim_name="brief jobs"), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.counts["jobs' VMs that no look saw"] > 4
    assert outcome.counts["VMs that came and went unseen"] == 0  # and none of them without a price
    ends = (outcome.counts[f"job {state}"] for state in ("cancelled", "failed", "succeeded"))
    assert all(ends), outcome.counts


def test_jobs_with_deadlines_break_nothing(ledgers: Ledgers) -> None:
    """Most of them are preempted, some move, and anything may go wrong meanwhile."""
    outcome = lived(draw(307, 1, 10, [kind.name for kind in ORDINARY], "deadlines"), ledgers.fresh())
    assert outcome.wrong == [], outcome.plan.command
    assert outcome.counts["submitted"] > 1


def test_every_planted_fault_has_lives_that_are_about_it() -> None:
    """`lives` of a fault names an aim, and only a fault with an invariant has one."""
    for fault in faults.read():
        assert fault.lives in AIMS
        assert not fault.lives or fault.invariant


def test_a_life_on_postgresql_breaks_no_invariant(postgres_url: str) -> None:
    """The same on the database of an organisation."""
    price(postgres_url)
    with closing(opened(postgres_url)) as database:
        outcome = live(4, 1.5, database, size=6)
    assert outcome.wrong == [], outcome.plan.command


def test_restored_postgresql_keeps_what_it_promises(postgres_url: str) -> None:
    """Rows of hours ago are put back while VMs and jobs go on: nothing is deleted for it, and the ledger is right."""
    price(postgres_url)
    with closing(opened(postgres_url)) as database:
        plan = draw(9, 1.5, 5, ())
        fault = PlannedFault(0, plan.start + 0.6 * DAY, plan.start + 0.9 * DAY, RESTORED)
        outcome = lived(replace(plan, faults=(fault,)), database)
    assert outcome.wrong == []
    assert outcome.counts["databases restored"] > 0


def test_guard_that_stood_still_before_a_write_does_no_harm(ledgers: Ledgers) -> None:
    """Another has taken over meanwhile: what the first one then writes and asks of Google is refused by its lease.

    `python -m tests.simulation --freeze` tries every write.
    """
    outcomes = [outcome for _, outcome in frozen_at_each(draw(7, 0.5, 3), ledgers.fresh, most=4)]
    assert [outcome.wrong for outcome in outcomes] == [[]] * len(outcomes)
    assert sum(outcome.counts["freezes"] for outcome in outcomes) > 2
    assert sum(outcome.counts["lease lost"] for outcome in outcomes) > 2


def test_same_seed_lives_the_same_life_in_every_process(ledgers: Ledgers) -> None:
    """No hash order, wall clock or random id decides anything."""
    here = live(5, 1, ledgers.fresh(), size=3).trace
    elsewhere = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--first", "5", "--days", "1", "--vms", "3"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    ).stdout
    assert here in elsewhere


def test_life_starts_no_thread(ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread moves the clock and draws pauses whenever it comes to run, and is killed in place of the guard."""
    started = list[str]()

    def start(thread: threading.Thread) -> None:
        started.append(thread.name)
        thread.run()

    monkeypatch.setattr(threading.Thread, "start", start)
    outcome = live(3, 1, ledgers.fresh(), size=3)
    assert (started, outcome.wrong) == ([], [])
    assert outcome.counts["passes"] > 0


def test_failing_plan_is_shrunk_to_what_it_takes() -> None:
    """The two faults that break an invariant together stay, of all faults, VMs and kills, and the command names
    them.
    """

    def lives(plan: object) -> Outcome:
        assert isinstance(plan, type(drawn))
        breaks = {3, 7} <= set(plan.numbers("vms"))
        return Outcome(plan, wrong=[f"VM {len(plan.numbers('vms'))} is lost"] if breaks else [])

    drawn = draw(1, 20, 20)
    small = shrunk(lives(drawn), lives)
    assert small.numbers("vms") == (3, 7)
    assert small.numbers("faults") == small.numbers("kills") == ()
    assert "--only vms=3,7" in small.command
    assert kind_of("VM 12 is lost") == kind_of("VM 3 is lost")
