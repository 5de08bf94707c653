"""Preemptions that strike while a VM is starting, and the stops that find it off already.

The moments are recorded ones of real operations: two of the three preemptions recorded of one scheduled Spot VM fell
inside its start operation, at 23:00:14.262 and 20:00:07.433 where the starts were done at about :15, and the
scheduler's stop that followed was DONE without an error 0.4 to 0.7 s after it began. When those starts began was not
recorded; a start takes 5 to 25 s.
"""

from __future__ import annotations

import pytest
from tests.builders import at, event, lifetime, operation, seen

from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime
from costguard.ledger.timeline import Run, runs_of
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import SeenOperation

FIRST = (operation("start", "23:00:01", "23:00:15"), event("preempted", "23:00:14.262"))
SECOND = (operation("start", "20:00:01", "20:00:15"), event("preempted", "20:00:07.433"))
NEXT_DAY = "2026-11-03T06:00:00"
NO_OP_STOP = operation("stop", NEXT_DAY, "2026-11-03T06:00:00.550")
OFF = seen(Status.STOPPED, started="23:00:15", last_stopped_at="23:01:02")


def _runs(
    *operations: SeenOperation,
    listed: SeenInstance | None = None,
    lifetimes: tuple[Lifetime, ...] = (),
    read: str = "2026-11-03T12:00:00",
) -> list[Run]:
    return runs_of(lifetimes, sorted(operations, key=lambda op: op.inserted_at), listed, at(read))


@pytest.mark.parametrize(("recorded", "struck"), [(FIRST, "23:00:14.262"), (SECOND, "20:00:07.433")])
@pytest.mark.parametrize("listed", [None, seen(Status.STOPPED, started="08:00", last_stopped_at="23:01:02")])
def test_recorded_preemption_inside_a_start_ends_that_lifetime(
    recorded: tuple[SeenOperation, ...], struck: str, listed: SeenInstance | None
) -> None:
    """The run is one, ended by the preemption at its own moment; the no-op stop of the next morning ends nothing."""
    run = _runs(*recorded, NO_OP_STOP, listed=listed)[-1]
    assert (run.ended_at, run.reason, run.end_is_estimate) == (at(struck), EndReason.PREEMPTED, False)
    assert run.started_at <= at(struck)


def test_start_stamp_before_the_preemption_is_where_the_run_began() -> None:
    """The VM came up, and was preempted before Google had marked the start as done."""
    listed = seen(Status.STOPPED, started="23:00:12", last_stopped_at="23:01:02")
    (run,) = _runs(*FIRST, NO_OP_STOP, listed=listed)
    assert (run.started_at, run.ended_at) == (at("23:00:12"), at("23:00:14.262"))


@pytest.mark.parametrize("started", ["23:00:15", "23:00:15.310"])
def test_start_that_the_ledger_holds_is_ended_and_not_replaced(started: str) -> None:
    """The start was read before the preemption was: the same lifetime ends, and never before it began."""
    (run,) = _runs(*FIRST, NO_OP_STOP, listed=OFF, lifetimes=(lifetime(started),))
    assert (run.started_at, run.ended_at) == (at(started), at(started))
    assert run.reason is EndReason.PREEMPTED


def test_preemption_long_before_its_start_was_done_still_ends_it() -> None:
    """The end holds however much longer the start operation went on, and whatever of it the ledger holds already."""
    slow = (operation("start", "20:00:01", "20:00:40"), event("preempted", "20:00:07.433"))
    (run,) = _runs(*slow, listed=None)
    assert run.ended_at == at("20:00:07.433")
    stored = lifetime(run.started_at.isoformat()[:23], run.started_at.isoformat()[:23], EndReason.PREEMPTED)
    assert _runs(*slow, lifetimes=(stored,)) == [run]
    (late,) = _runs(*slow, lifetimes=(lifetime("20:00:40"),))
    assert (late.started_at, late.ended_at, late.reason) == (at("20:00:40"), at("20:00:40"), EndReason.PREEMPTED)


def test_vm_started_again_after_such_a_preemption_runs() -> None:
    """The next start is a lifetime of its own, open and billing."""
    again = operation("start", "2026-11-03T08:00:00", "2026-11-03T08:00:14")
    listed = seen(started="2026-11-03T08:00:14", last_stopped_at="23:01:02")
    ended, running = _runs(*FIRST, NO_OP_STOP, again, listed=listed)
    assert ended.reason is EndReason.PREEMPTED
    assert (running.started_at, running.ended_at) == (at("2026-11-03T08:00:14"), None)


def test_vm_that_is_listed_as_running_on_is_never_taken_for_ended() -> None:
    """Minutes after the event the VM still runs, and nothing started it again: it bills."""
    listed = seen(started="23:00:15.310", last_stopped_at="22:00")
    (run,) = _runs(*FIRST, listed=listed, read="23:30")
    assert run.ended_at is None


def test_preemption_before_a_start_belongs_to_the_run_before() -> None:
    """The start began after the event, so what ended is the run that the VM had until then."""
    insert = operation("insert", "09:59", "10:00")
    start = operation("start", "11:00:05", "11:00:20")
    first, second = _runs(insert, event("preempted", "11:00"), start)
    assert (first.ended_at, first.reason, second.started_at) == (at("11:00"), EndReason.PREEMPTED, at("11:00:20"))


def test_start_of_a_vm_that_runs_does_not_take_the_preemption_from_its_run() -> None:
    """A start that finds the VM running does nothing; the preemption meanwhile ends the run that there is."""
    insert = operation("insert", "09:59", "10:00")
    no_op_start = operation("start", "11:00:00", "11:00:00.600")
    (run,) = _runs(insert, no_op_start, event("preempted", "11:00:00.300"))
    assert (run.started_at, run.ended_at) == (at("10:00"), at("11:00:00.300"))


def test_no_op_stop_of_a_vm_whose_preemption_was_never_read_ends_nothing() -> None:
    """The VM stopped before that stop began, says its stop stamp: the end is estimated from the stamp."""
    start = operation("start", "23:00:01", "23:00:15")
    (run,) = _runs(start, NO_OP_STOP, listed=OFF)
    assert (run.ended_at, run.reason, run.end_is_estimate) == (at("23:01:02"), EndReason.UNKNOWN, True)


def test_real_stop_is_believed_however_quick() -> None:
    """The stop stamp is written as it ends, so it is not before its beginning."""
    start, quick = operation("start", "08:59", "09:00"), operation("stop", "11:00:00", "11:00:01.500")
    (run,) = _runs(start, quick, listed=seen(Status.STOPPED, started="09:00", last_stopped_at="11:00:01.400"))
    assert (run.ended_at, run.reason, run.end_is_estimate) == (at("11:00"), EndReason.STOPPED, False)


def test_preempted_start_is_recorded_in_words_and_costs_nothing() -> None:
    """A Spot VM that is preempted in its first minute is free; the event says that it never came up."""
    listed = seen(
        Status.STOPPED,
        started=None,
        last_stopped_at="23:01:02",
        provisioning_model=ProvisioningModel.SPOT,
        created_at="07:59",
    )
    facts = KnownFacts(None, listed, [*FIRST, NO_OP_STOP], at(NEXT_DAY), at("07:00"))
    entry = account(listed.key, facts, Belonging((), OwnerRules()))
    assert entry is not None
    (life,) = [one for one in entry.lifetimes if one.end_reason is EndReason.PREEMPTED]
    assert bill_lifetime(life, PriceBook([]), at(NEXT_DAY)).charges == ()
    (ended,) = [event.text for event in entry.events if event.kind == "LifetimeEnded"]
    assert ended == "vm was preempted by Google while it was starting."
