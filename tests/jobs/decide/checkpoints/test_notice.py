"""The notice of a preemption: what VMs are asked for with, where Google refuses it, and how long others wait for it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from tests.jobs.jobbed import MINUTE, NOW, agent, attempt, decided, ended, interruption, job, standing, view
from tests.jobs.world import ANA, RECIPE, ZONES, World, world

from costguard.jobs.act.attempts.vm_request import settings_for
from costguard.jobs.act.attempts.vm_step import RefusedNotices
from costguard.jobs.decide.actions import EndAttempt, LaunchAttempt
from costguard.jobs.decide.checkpoints.notice import lost_at_preemption, measured_save, notice_text
from costguard.jobs.listing.jobs import job_detail
from costguard.jobs.rows.recovery import drills
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState
from costguard.model.launch import LONGEST_NOTICE, NO_NOTICE
from costguard.model.reported.drill import Drill, DrillResult, DrillState
from costguard.pages.job.drill_rows import drill_table
from costguard_vm.agent.settings import AttemptSettings, read_settings
from costguard_vm.agent.stopping import preemption_grace_s

SECOND = timedelta(seconds=1)


def settings_of(w: World, name: str = "cg-j1-1") -> str:
    return w.vm(name).request.metadata["costguard-attempt"]


@pytest.mark.parametrize(
    ("model", "notice", "given"),
    [
        (ProvisioningModel.SPOT, LONGEST_NOTICE, LONGEST_NOTICE),
        (ProvisioningModel.SPOT, NO_NOTICE, NO_NOTICE),
        (ProvisioningModel.STANDARD, LONGEST_NOTICE, NO_NOTICE),
    ],
)
def test_spot_vm_is_asked_for_with_its_notice(
    database_url: str, model: ProvisioningModel, notice: timedelta, given: timedelta
) -> None:
    """The attempt, the request and the agent's settings say the same; a VM on demand has none."""
    with world(database_url) as w:
        w.submit(recipe=replace(RECIPE, provisioning_model=model, notice=notice))
        w.until_up("cg-j1-1")
        assert w.vm().request.notice == given
        assert w.attempts()[0].notice == given
        assert ("('notice_s', 120.0)" in settings_of(w)) is (given == LONGEST_NOTICE)


def test_where_google_refuses_the_notice_the_vm_is_launched_without_at_once(sqlite_url: str) -> None:
    """The same attempt asks again without one, and its agent knows. The next VM there is not asked for with one."""
    with world(sqlite_url) as w:
        w.cloud.without_notices = {ZONES[0]}
        w.submit()
        w.until_up("cg-j1-1")
        assert (w.vm().zone, w.vm().request.notice, w.attempts()[0].notice) == (ZONES[0], NO_NOTICE, NO_NOTICE)
        assert "notice_s" not in settings_of(w)
        ids = [request for name, request in w.cloud.asked_for if name == "cg-j1-1"]
        assert len(set(ids)) == 2, "under the same id, Google may repeat its first answer"
        assert ids[0] == w.attempts()[0].request_uuid
        w.submit("j2")
        w.until_up("cg-j2-1")
        assert w.vm("cg-j2-1").request.notice == NO_NOTICE
        assert [name for name, _ in w.cloud.asked_for].count("cg-j2-1") == 1


def test_lost_answer_to_the_request_without_a_notice_makes_no_second_vm(sqlite_url: str) -> None:
    """A repeat asks with the notice again, is refused, and asks without under the same id as before."""
    with world(sqlite_url) as w:
        w.cloud.without_notices = {ZONES[0]}
        w.cloud.mute = 1
        w.submit()
        w.until_up("cg-j1-1")
        assert [vm.request.notice for vm in w.cloud.all] == [NO_NOTICE]
        assert w.attempts()[0].state is AttemptState.BOOTING


def test_vm_whose_answer_was_lost_counts_with_the_notice_it_has(sqlite_url: str) -> None:
    """It is seen at the next look, and no other is asked for, though the zone refuses notices by then."""
    with world(sqlite_url) as w:
        w.cloud.mute = 1
        w.submit()
        w.step()
        w.cloud.without_notices = {ZONES[0]}
        w.until_up("cg-j1-1")
        assert (w.vm().request.notice, w.attempts()[0].notice) == (LONGEST_NOTICE, LONGEST_NOTICE)


def test_refusal_is_forgotten_after_a_while() -> None:
    """Six hours later the zone is asked for a notice again; other zones and machine types were asked all the time."""
    refused = RefusedNotices()
    refused.note("us-central1-a", "a2-highgpu-1g", NOW)
    assert refused.hold("us-central1-a", "a2-highgpu-1g", NOW + 60 * MINUTE)
    assert not refused.hold("us-central1-b", "a2-highgpu-1g", NOW)
    assert not refused.hold("us-central1-a", "a2-highgpu-2g", NOW)
    assert not refused.hold("us-central1-a", "a2-highgpu-1g", NOW + 7 * 60 * MINUTE)


@pytest.mark.parametrize(("notice", "seconds"), [(NO_NOTICE, 40), (LONGEST_NOTICE, 160), (None, 160)])
def test_silence_after_an_announcement_ends_a_run_once_its_vm_must_be_off(
    notice: timedelta | None, seconds: int
) -> None:
    """Deleting its VM sooner would end the save. What a VM was asked for may not be known: then the longest counts."""
    run = attempt(notice=notice, agent=agent(NOW, noticed_at=NOW))
    early = decided(view(run), NOW + (seconds - 1) * SECOND)
    assert not early.actions
    assert early.next_at == NOW + seconds * SECOND
    (end,) = decided(view(run), NOW + seconds * SECOND).actions
    assert isinstance(end, EndAttempt)
    assert end.outcome is Outcome.PREEMPTED


@pytest.mark.parametrize(("notice", "seconds"), [(NO_NOTICE, 40), (LONGEST_NOTICE, 160), (None, 160)])
def test_next_vm_waits_until_the_one_that_was_preempted_can_write_no_more(
    notice: timedelta | None, seconds: int
) -> None:
    """Google's event may come with the announcement, while the VM trains on for its whole notice and 30 s more."""
    over = ended(Outcome.PREEMPTED, gone=False, notice=notice, try_after=NOW + 60 * MINUTE, agent=agent(NOW - MINUTE))
    seen = view(replace(over, vm=standing()), interruptions=(interruption(happened_at=NOW),))
    early = decided(seen, NOW + (seconds - 1) * SECOND)
    assert (early.actions, early.next_at) == ((), NOW + seconds * SECOND)
    (launch,) = decided(seen, NOW + seconds * SECOND).actions
    assert isinstance(launch, LaunchAttempt)


def test_next_vm_does_not_wait_for_a_command_whose_end_was_reported(sqlite_url: str) -> None:
    """A save of a minute within a notice of two: the next VM is asked for right after it."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.step()
        w.notice()
        w.step(60)
        assert w.job().state is JobState.RUNNING, "it saves"
        w.shelf.save(7)
        w.exit(stop_request="preemption")
        w.step()
        w.step()
        assert [one.number for one in w.attempts()] == [1, 2]
        assert w.attempts()[1].resume_step == 7


@pytest.mark.parametrize(
    ("notice", "seconds", "text"),
    [
        (LONGEST_NOTICE, 60, "a save takes 60 s and fits in the notice of 120 s"),
        (LONGEST_NOTICE, 142, "a save takes 142 s and fits in the notice of 120 s"),
        (
            LONGEST_NOTICE,
            143,
            "a save takes 143 s and does not fit in the notice of 120 s: a preemption loses the work since the "
            "checkpoint before",
        ),
        (NO_NOTICE, 9.5, "a save takes 9.5 s and fits in the last 22 s of a VM"),
        (
            NO_NOTICE,
            60,
            "a save takes 60 s and does not fit in the last 22 s of a VM: a preemption loses the work since the "
            "checkpoint before",
        ),
    ],
)
def test_save_fits_in_the_notice_or_not(notice: timedelta, seconds: float, text: str) -> None:
    """A preemption loses as much as the measured save and the notice imply, and the sentence says so."""
    save = seconds * SECOND
    assert notice_text(replace(RECIPE, notice=notice), save) == text
    assert (lost_at_preemption(save, notice) == save) is ("does not" not in text)


def test_without_a_measured_save_nothing_is_said() -> None:
    """A VM on demand is never preempted. Until a save is measured, the work since the last one may be lost."""
    assert notice_text(RECIPE, None) == ""
    assert notice_text(replace(RECIPE, provisioning_model=ProvisioningModel.STANDARD), SECOND) == ""
    assert lost_at_preemption(None, LONGEST_NOTICE) is None


def test_last_save_that_was_seen_counts() -> None:
    """Uploaded where it travels; a save that came too late was measured too, and an interrupted drill shows none."""
    over = Drill("j1", 1, NOW, ANA, state=DrillState.OVER)
    newest = replace(over, number=3, result=DrillResult.INTERRUPTED, saved=SECOND)
    late = replace(over, number=2, result=DrillResult.TOO_LATE, saved=150 * SECOND, uploaded=200 * SECOND)
    first = replace(over, result=DrillResult.SAVED, saved=5 * SECOND)
    assert measured_save([newest, late, first]) == 200 * SECOND
    assert measured_save([newest, first]) == 5 * SECOND
    assert measured_save([newest]) is None


def test_quote_knows_the_save_of_a_job_with_the_same_command(database_url: str) -> None:
    """It knows it for the same preset alone; another command saves something else."""
    with world(database_url) as w:
        job = w.submit()
        with w.database.write() as connection:
            assert drills.last_save(connection, job.spec) is None
            drills.add(connection, job, ANA, w.clock.now())
        w.until_up("cg-j1-1")
        w.start()
        report = {"number": 1, "phase": "over", "result": "saved", "saved_s": 41.0, "resumed": "yes"}
        w.say("cg-j1-1", ("drill", report))
        with w.database.read() as connection:
            assert drills.last_save(connection, job.spec) == 41 * SECOND
            assert drills.last_save(connection, replace(job.spec, command=("python", "other.py"))) is None
            assert drills.last_save(connection, replace(job.spec, preset="a100")) is None
            detail = job_detail(connection, accrual_at(connection, w.clock.now()), job.id)
        assert detail is not None
        assert detail.on_notice.save == "a save takes 41 s and fits in the notice of 120 s"
        assert drill_table(job, detail.drills, detail.on_notice).save == detail.on_notice.save


@pytest.mark.parametrize(("notice", "saves"), [(LONGEST_NOTICE, 60), (NO_NOTICE, 0)])
def test_save_of_a_minute_succeeds_within_the_notice_and_not_without(notice: timedelta, saves: int) -> None:
    """It holds in 60 of 60 preemptions; the guard, which hears no more, deletes no VM meanwhile.

    With real processes and seconds: tests/trainers/noticed.py.
    """
    run = attempt(notice=notice, agent=agent(NOW, noticed_at=NOW))
    given = settings_for(job(command=("python", "train.py")), run, (), "https://guard.example.com")
    settings, wrong = read_settings(json.dumps(given))
    assert not wrong
    succeeded = 0
    for seed in range(60):
        lot = Random(seed)
        noticed_at = NOW + lot.uniform(0, 3) * SECOND  # of the announcement
        saved = noticed_at + 60 * SECOND
        killed = noticed_at + preemption_grace_s(settings) * SECOND
        power_off = NOW + notice + lot.uniform(25, 30) * SECOND
        succeeded += saved < min(killed, power_off)
        if notice:
            assert not decided(view(run), saved).actions
    assert succeeded == saves


def _lost_at(notice: timedelta, settings: AttemptSettings, lot: Random) -> tuple[timedelta, timedelta, timedelta]:
    """Preempts a training at a random moment: the work that it lost, its step, and its save.

    A training ends its step, or drops it, before it saves; it last saved up to half an hour before. What the VM does
    after the last step that is kept, until the save is whole, is lost.
    """
    step = 0.1 * 600 ** lot.random() * SECOND
    save, since_save = lot.uniform(1, 60) * SECOND, lot.uniform(0, 1800) * SECOND
    noticed_at = NOW + lot.uniform(0, 3) * SECOND  # of the announcement
    asked_at = noticed_at + lot.uniform(0, settings.poll_s) * SECOND
    begun = lot.random() * step  # of the step in which SIGTERM comes
    ends_step = lot.random() < 0.5
    saved_at = asked_at + (step - begun if ends_step else timedelta()) + save
    killed_at = noticed_at + preemption_grace_s(settings) * SECOND
    power_off = NOW + notice + lot.uniform(25, 30) * SECOND
    if saved_at >= min(killed_at, power_off):
        return since_save + begun + (asked_at - NOW), step, save
    run = attempt(notice=notice, agent=agent(NOW, noticed_at=NOW))
    assert not decided(view(run), saved_at).actions, "the guard deletes no VM that saves"
    return save + (timedelta() if ends_step else begun), step, save


@pytest.mark.parametrize(("notice", "is_enough"), [(LONGEST_NOTICE, True), (NO_NOTICE, False)])
def test_announced_preemption_loses_a_step_and_a_save_at_most(notice: timedelta, is_enough: bool) -> None:
    """It holds in at least 99 of 100: 1,000 preemptions, steps of 0.1 to 60 s, saves of 1 to 60 s. Without the notice
    it does not: saves are cut off, and the work since the checkpoint before goes with them.

    The agent's grace is by its own rule; with real processes: tests/trainers/noticed.py.
    """
    run = attempt(notice=notice, agent=agent(NOW, noticed_at=NOW))
    settings, wrong = read_settings(
        json.dumps(settings_for(job(command=("python", "train.py")), run, (), "https://guard.example.com"))
    )
    assert not wrong
    kept = 0
    for seed in range(1000):
        lost, step, save = _lost_at(notice, settings, Random(seed))
        kept += lost <= step + save
    assert (kept >= 990) is is_enough
