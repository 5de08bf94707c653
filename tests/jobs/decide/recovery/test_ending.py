"""The end of a run is judged by each of its sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    ANA,
    GONE,
    HOUR,
    LONG_AGO,
    MINUTE,
    NOW,
    ON_DEMAND,
    ON_DISK,
    TERMS,
    agent,
    attempt,
    exited,
    interruption,
    job,
    standing,
)

from costguard.jobs.decide.recovery.ending import RunEnd, all_silent, ending
from costguard.jobs.decide.view import AttemptView, JobContext, VmState, present_run
from costguard.model.attempt import AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.instance import Status
from costguard.model.job import EarlyEnd, Job, JobKind
from costguard.model.lifetime import EndReason

ROBOT = "guard@acme.iam.gserviceaccount.com"


def end_of(
    vm: VmState | None = None,
    of_job: Job | None = None,
    now: Any = NOW,
    silent: bool = False,
    listening: Any = LONG_AGO,
    before: tuple[Interruption, ...] = (),
    **given: Any,
) -> RunEnd | None:
    """Returns the conclusion by now; None where there is none yet."""
    run = present_run(AttemptView(attempt(**given), vm), before)
    result = ending(run, of_job or job(), JobContext(TERMS, now, listening, silent))
    return result if result is not None and result.due_at <= now else None


def outcome(**given: Any) -> Outcome | None:
    result = end_of(**given)
    return result.outcome if result is not None else None


def reported(exit: Exit, **given: Any) -> Outcome | None:
    more = {name: given.pop(name) for name in ("noticed_at",) if name in given}
    return outcome(agent=agent(exit=exit, **more), **given)


@pytest.mark.parametrize(
    ("exit", "means"),
    [
        (exited(0), Outcome.SUCCEEDED),
        (exited(1), Outcome.CRASHED),
        (exited(None, signal=6), Outcome.CRASHED),
        (exited(0, asked="preemption"), Outcome.PREEMPTED),
        (exited(143, asked="preemption"), Outcome.PREEMPTED),
        (exited(0, asked="maintenance"), Outcome.HOST_ERROR),
        (exited(None, "not_started", error="no such image"), Outcome.NOT_STARTED),
        (exited(1, "setup_failed"), Outcome.NOT_STARTED),
        (exited(None, "setup_failed", error="docker commit failed"), Outcome.NOT_STARTED),
        (exited(None, "setup_failed", signal=15, asked="preemption"), Outcome.PREEMPTED),
        (exited(None, "setup_failed", signal=15, asked="maintenance"), Outcome.HOST_ERROR),
        (exited(None, "setup_failed", signal=9), None),
        (exited(0, asked="shutdown"), None),
        (exited(None, "cut_off"), None),
        (exited(None, signal=9), None),
        (exited(137), None),
    ],
)
def test_the_agents_last_word(exit: Exit, means: Outcome | None) -> None:
    """Code 0 is a success only where nobody had asked; what the machine may have done waits for Google's word."""
    assert reported(exit) is means


@pytest.mark.parametrize(
    ("exit", "means"),
    [
        (exited(0, asked="shutdown"), Outcome.PREEMPTED),
        (exited(None, "cut_off"), Outcome.LOST),
        (exited(None, signal=9), Outcome.CRASHED),
    ],
)
def test_google_is_given_two_minutes_to_say_why(exit: Exit, means: Outcome) -> None:
    """The likeliest reason counts then: a Spot VM that is shut down was preempted."""
    assert reported(exit, now=NOW + 2 * MINUTE) is means
    assert reported(exit, vm=standing(Status.STOPPED, EndReason.PREEMPTED)) is Outcome.PREEMPTED
    assert reported(exit, vm=standing(Status.STOPPED, EndReason.STOPPED, ANA)) is Outcome.REMOVED


def test_an_on_demand_vm_is_not_preempted() -> None:
    """A shutdown that nobody explains is a loss there, and a killed command has crashed at once."""
    assert reported(exited(0, asked="shutdown"), provisioning_model=ON_DEMAND, now=NOW + 2 * MINUTE) is Outcome.LOST
    assert reported(exited(137), provisioning_model=ON_DEMAND) is Outcome.CRASHED


def test_a_crash_after_the_notice_is_the_preemption() -> None:
    """A crash within minutes after a notice is a preemption; one before the notice is a crash, and a success is a
    success.
    """
    assert reported(exited(1), noticed_at=at("11:59")) is Outcome.PREEMPTED
    assert reported(exited(1, moment=at("11:50")), noticed_at=at("11:59")) is Outcome.CRASHED
    assert reported(exited(1), noticed_at=at("11:50")) is Outcome.CRASHED
    assert reported(exited(0), noticed_at=at("11:59")) is Outcome.SUCCEEDED
    assert reported(exited(1), vm=standing(Status.STOPPING, EndReason.PREEMPTED)) is Outcome.PREEMPTED
    assert reported(exited(1, moment=at("11:30")), vm=standing(Status.STOPPING, EndReason.PREEMPTED)) is Outcome.CRASHED


def test_a_shutdown_at_the_vms_limit_is_its_limit() -> None:
    """Nobody waits for Google to confirm what was arranged."""
    assert reported(exited(0, asked="shutdown"), max_run=2 * HOUR - MINUTE) is Outcome.TIME_LIMIT


@pytest.mark.parametrize(
    ("why", "means"),
    [("cancel", Outcome.CANCELLED), ("pause", Outcome.PAUSED), ("ceiling", Outcome.TIME_LIMIT), ("", Outcome.LOST)],
)
def test_a_stop_that_was_asked_for_ends_as_what_it_was_for(why: str, means: Outcome) -> None:
    """The cancel of a job covers all other reasons."""
    assert reported(exited(0, asked="cancel"), stop_why=why) is means
    assert reported(exited(0, asked="cancel"), stop_why=why, of_job=job(cancel_asked_at=NOW)) is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("reason", "by", "means"),
    [
        (EndReason.PREEMPTED, "system", Outcome.PREEMPTED),
        (EndReason.HOST_ERROR, "system", Outcome.HOST_ERROR),
        (EndReason.HOST_MAINTENANCE, "system", Outcome.HOST_ERROR),
        (EndReason.RUN_TIME_LIMIT, "system", Outcome.TIME_LIMIT),
        (EndReason.GUEST_SHUTDOWN, "", Outcome.LOST),
        (EndReason.STOPPED, ANA, Outcome.REMOVED),
        (EndReason.DELETED, ANA, Outcome.REMOVED),
        (EndReason.SUSPENDED, ANA, Outcome.REMOVED),
        (EndReason.DELETED, ROBOT, Outcome.LOST),
        (EndReason.DELETED, "", None),
        (EndReason.UNKNOWN, "", None),
    ],
)
def test_the_end_of_the_vm(reason: EndReason, by: str, means: Outcome | None) -> None:
    """A person who removes it wants it gone; what a service account does does not end the work."""
    assert outcome(vm=standing(Status.STOPPED, reason, by)) is means
    assert outcome(vm=standing(Status.STOPPED, reason, by), now=NOW + 2 * MINUTE) is (means or Outcome.LOST)


def test_the_reason_names_who_removed_it() -> None:
    """The reason names also when, and where."""
    result = end_of(vm=standing(Status.STOPPED, EndReason.DELETED, ANA, **GONE))
    assert result is not None
    assert result.reason == "its VM in us-central1-a (Spot) was deleted by ana@example.com at 11:59 UTC"


def test_a_vm_that_could_not_be_read_has_not_ended() -> None:
    """The silence of its agent is no loss either."""
    hidden = standing(Status.STOPPED, EndReason.PREEMPTED, is_known=False)
    assert outcome(vm=hidden) is None
    assert outcome(vm=hidden, agent=agent(at("11:00"))) is None


def test_a_notice_is_the_end_once_the_machine_must_be_dead() -> None:
    """40 seconds after the agent's last word, and only where no exit came; Google's own moment is kept."""
    noticed = agent(noticed_at=at("11:59:30"))
    assert outcome(agent=noticed, now=at("12:00:39")) is None
    result = end_of(agent=noticed, now=at("12:00:40"))
    assert result is not None
    assert (result.outcome, result.noticed_by) == (Outcome.PREEMPTED, Notice.NOTICE)
    assert result.happened_at == at("11:59:30")
    assert outcome(agent=noticed, vm=standing(Status.STOPPED, EndReason.UNKNOWN)) is Outcome.PREEMPTED


def test_silence_is_a_loss_after_a_while() -> None:
    """Counted from when this guard began to listen, and never where no agent at all is heard."""
    quiet = agent(at("11:50"))
    assert outcome(agent=quiet) is Outcome.LOST
    assert outcome(agent=agent(at("11:50:01"))) is None
    assert outcome(agent=quiet, listening=at("11:55")) is None
    assert outcome(agent=quiet, silent=True) is None
    assert outcome(agent=quiet, vm=standing()) is Outcome.LOST
    assert outcome(agent=quiet, of_job=job(checkpoint=ON_DISK)) is Outcome.LOST  # its VM is stopped, and keeps its disk


def test_a_vm_that_never_reports_did_not_start() -> None:
    """Half an hour after it was there; a guard that just began to listen waits for a first word."""
    booting: dict[str, Any] = {"state": AttemptState.BOOTING}
    assert outcome(**booting, now=at("10:30:59")) is None
    assert outcome(**booting, now=at("10:31")) is Outcome.NOT_STARTED
    assert outcome(**booting, now=at("10:31"), listening=at("10:30")) is None
    assert outcome(**booting, now=at("10:31"), agent=agent(at("10:30"), started_at=None)) is None


def test_a_command_that_ignores_its_notice_is_not_waited_for() -> None:
    """A minute of its own, and half a one for the agent to hear of it."""
    stopped: dict[str, Any] = {"stop_asked_at": at("11:58:30"), "stop_why": "cancel"}
    assert outcome(**stopped) is Outcome.CANCELLED
    assert outcome(**stopped, now=at("11:59:59")) is None


def test_agent_that_publishes_for_a_flat_job_is_waited_for() -> None:
    """The guard waits while it reports that it does, for an hour; not for a job that a user cancelled."""
    flat = replace(job(), early=EarlyEnd.FLAT, cancel_asked_at=at("11:50"))
    stopped: dict[str, Any] = {"stop_asked_at": at("11:50"), "stop_why": "cancel"}
    for phase, of_job, ended in (
        ("publishing", flat, None),
        ("saving", flat, None),
        ("", flat, Outcome.CANCELLED),
        ("publishing", job(), Outcome.CANCELLED),
    ):
        assert outcome(**stopped, of_job=of_job, agent=agent(at("11:59"), phase=phase)) is ended
    silent = agent(at("11:58"), phase="publishing")
    assert outcome(**stopped, of_job=flat, agent=silent) is Outcome.CANCELLED
    late = agent(at("12:52"), phase="publishing")
    assert outcome(**stopped, of_job=flat, now=at("12:53"), agent=late) is Outcome.CANCELLED


def test_what_was_told_of_an_earlier_run_is_not_told_of_this_one() -> None:
    """A VM that was started again has its old exit and its old end until there is news."""
    old: dict[str, Any] = {
        "of_job": job(checkpoint=ON_DISK),
        "state": AttemptState.BOOTING,
        "restarts": 1,
        "asked_at": NOW,
        "agent": agent(exit=exited(0, asked="preemption")),
        "vm": standing(Status.STOPPED, EndReason.PREEMPTED),
        "before": (interruption(),),
    }
    assert outcome(**old) is None
    assert outcome(**{**old, "agent": agent(run=2, exit=exited(1))}) is Outcome.CRASHED
    again = standing(Status.STOPPED, EndReason.PREEMPTED, started_at=NOW, ended_at=NOW)
    assert outcome(**{**old, "vm": again}) is Outcome.PREEMPTED
    assert outcome(**{**old, "agent": agent(exit=exited(None, "cut_off"))}) is None


def test_a_vm_for_development_ends_only_when_it_is_gone() -> None:
    """A stop keeps its disk; Google's own ends delete it."""
    dev: dict[str, Any] = {"of_job": job(kind=JobKind.DEV, checkpoint=None), "state": AttemptState.BOOTING}
    assert outcome(**dev, now=at("23:00")) is None
    assert outcome(**dev, vm=standing(Status.STOPPED, EndReason.STOPPED, ANA)) is None
    assert outcome(**dev, vm=standing(Status.STOPPED, EndReason.DELETED, ANA, **GONE)) is Outcome.REMOVED
    assert outcome(**dev, vm=standing(Status.STOPPING, EndReason.PREEMPTED)) is Outcome.PREEMPTED
    assert outcome(**dev, vm=standing(Status.STOPPING, EndReason.RUN_TIME_LIMIT)) is Outcome.TIME_LIMIT


def test_our_own_door_is_suspected_when_no_agent_is_heard() -> None:
    """Two at least; one that was heard of late clears it."""
    old, fresh = at("11:54"), at("11:58")
    assert all_silent([old, old], TERMS, NOW, LONG_AGO)
    assert not all_silent([old], TERMS, NOW, LONG_AGO)
    assert not all_silent([old, fresh], TERMS, NOW, LONG_AGO)
    assert not all_silent([old, old], TERMS, NOW, at("11:58"))


def test_a_vm_that_was_started_again_has_its_own_time_to_boot() -> None:
    """The time begins when it was requested or seen to start; as long as neither is known, nothing is concluded."""
    again: dict[str, Any] = {
        "of_job": job(checkpoint=ON_DISK),
        "state": AttemptState.BOOTING,
        "restarts": 1,
        "agent": agent(at("11:00")),
        "before": (interruption(happened_at=at("11:00")),),
    }
    assert outcome(**again, now=at("13:00")) is None
    assert outcome(**again, asked_at=at("12:30"), now=at("13:00")) is Outcome.NOT_STARTED
    assert outcome(**again, asked_at=at("12:31"), now=at("13:00")) is None
    assert outcome(**again, vm=standing(started_at=at("12:30")), now=at("13:00")) is Outcome.NOT_STARTED


def test_failed_setup_is_no_failure_of_the_command() -> None:
    """A failed setup is known by its code or its error; also where a Spot VM's sudden end might have explained its
    signal.
    """
    for exit, words in (
        (exited(3, "setup_failed"), "the setup failed with code 3"),
        (exited(None, "setup_failed", error="docker commit failed"), "the setup failed: docker commit failed"),
    ):
        end = end_of(agent=agent(exit=exit))
        assert end is not None
        assert end.reason == words
    end = end_of(agent=agent(exit=exited(None, "setup_failed", signal=9)), now=NOW + HOUR)
    assert end is not None
    assert (end.outcome, end.reason) == (Outcome.NOT_STARTED, "the setup failed with signal 9")
