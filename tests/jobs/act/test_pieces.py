"""Parts of the turns by themselves: Google's errors and limits, a process that stood still, a lost lease, labels."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from tests.jobs.jobbed import TERMS
from tests.jobs.world import T4, World, world

from costguard.daemon import restoring
from costguard.db import lease as leases
from costguard.errors import CheckpointLocationUnavailable, LeaseLost
from costguard.jobs.act.attempts.delete import gave_up
from costguard.jobs.act.attempts.vm_request import label_of
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.decide.recovery import resume
from costguard.jobs.decide.recovery.ending import outcome_of, words_of
from costguard.jobs.rows.attempts import JobVm
from costguard.ledger.owner import OwnerRules
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import CheckpointPlan
from costguard.model.launch import OperationAnswer
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState, Framework, Listing, LookFor


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", Outcome.STOCKOUT),
        ("UNSUPPORTED_OPERATION", Outcome.STOCKOUT),
        ("RESOURCE_NOT_READY", Outcome.STOCKOUT),
        ("503", Outcome.STOCKOUT),
        ("QUOTA_EXCEEDED", Outcome.QUOTA),
        ("INVALID_FIELD_VALUE", Outcome.REFUSED),
        ("RESOURCE_NOT_FOUND", Outcome.REFUSED),
        ("SERVICE_ACCOUNT_ACCESS_DENIED", Outcome.REFUSED),
        ("VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT", Outcome.LOST),
        ("INTERNAL_ERROR", Outcome.LOST),
        ("", Outcome.LOST),
    ],
)
def test_what_an_operations_error_means(code: str, outcome: Outcome) -> None:
    """Stockouts and quotas move on, refusals are final, and what nobody knows is tried again."""
    assert outcome_of(OperationAnswer(True, "", code, "")) is outcome


def test_googles_words_decide_where_its_code_does_not() -> None:
    """An account that may not be used or a policy refuses again; words about room mean another place."""
    said = {
        "Constraint constraints/compute.vmExternalIpAccess violated for project 7.": Outcome.REFUSED,
        "The zone 'projects/p/zones/z' does not have enough resources available.": Outcome.STOCKOUT,
        "The flux is out of phase.": Outcome.LOST,
    }
    assert {words: outcome_of(OperationAnswer(True, "", "A_NEW_CODE", words)) for words in said} == said


def test_an_error_in_googles_words() -> None:
    """The text has the code, for people who search for it; an error without words has the code alone."""
    reported = OperationAnswer(True, "", "ZONE_RESOURCE_POOL_EXHAUSTED", "The zone has no  room.")
    assert words_of(reported) == "The zone has no room (ZONE_RESOURCE_POOL_EXHAUSTED)"
    assert words_of(OperationAnswer(True, "", "INTERNAL_ERROR", "")) == "Google says INTERNAL_ERROR"


@pytest.mark.parametrize(
    ("code", "words", "step"),
    [
        (
            "QUOTA_EXCEEDED",
            "Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 1.0 in region us-central1.",
            "--project=lab --quota-id=NVIDIA-T4-GPUS-per-project-region --dimensions=region=us-central1",
        ),
        (
            "SERVICE_ACCOUNT_ACCESS_DENIED",
            "The user does not have access to service account 'vm@lab.iam.gserviceaccount.com'.",
            "gcloud iam service-accounts add-iam-policy-binding vm@lab.iam.gserviceaccount.com",
        ),
        (
            "CONDITION_NOT_MET",
            "Constraint constraints/compute.vmExternalIpAccess violated for project 7.",
            "`external_address = false` in the preset",
        ),
    ],
)
def test_what_mends_a_failed_launch_follows_googles_words(code: str, words: str, step: str) -> None:
    """The job's thread and page get the step with the reason."""
    said = words_of(OperationAnswer(True, "", code, words), "lab")
    assert said.startswith(" ".join(words.split()).rstrip("."))
    assert step in said


def test_the_events_of_a_job_say_what_mends_a_refused_launch(sqlite_url: str) -> None:
    """An attempt that a quota ended has the step with its project, which thread and page show."""
    with world(sqlite_url) as w:
        w.cloud.used_up |= {"us-central1-a", "us-central1-b", "us-central1-c", "us-east1-c"}
        w.submit()
        for _ in range(4):
            w.step()
        ended = w.attempts()[0]
        assert ended.outcome is Outcome.QUOTA
        assert "Limit: 1" in ended.reason
        assert f"--project={ended.project} --quota-id=PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region" in ended.reason


def test_a_process_that_stood_still_asks_nothing(sqlite_url: str) -> None:
    """Another guard may have taken over meanwhile: the lease is checked again, and then the name looked at first."""

    with world(sqlite_url) as w:
        w.submit()
        w.turn = _turn(w, lambda: 40.0 if w.attempts() else 0.0)  # it stands still once the intent is committed
        w.step()
        assert (w.cloud.calls["look"], w.cloud.calls["insert"]) == (1, 1)
        assert w.attempts()[0].state is AttemptState.ASKED


def test_a_guard_that_lost_its_lease_writes_and_asks_nothing(sqlite_url: str) -> None:
    """The turn of such a guard ends there."""
    with world(sqlite_url) as w:
        w.submit()
        old = leases.acquire(w.database, "daemon", "one", timedelta(seconds=30), w.clock.now())
        w.clock.advance(timedelta(minutes=5))
        leases.acquire(w.database, "daemon", "two", timedelta(seconds=30), w.clock.now())
        with pytest.raises(LeaseLost):
            w.turn.run(old)
        assert (w.attempts(), w.cloud.calls["insert"]) == ([], 0)


@pytest.mark.parametrize("fault", ["deaf", "mute"])
def test_an_insert_is_repeated_under_its_own_request_id(sqlite_url: str, fault: str) -> None:
    """Google ignores a repeat under the same id, so that a slow one makes no second VM; another name has its own."""
    with world(sqlite_url) as w:
        w.submit()
        w.submit("j2")
        setattr(w.cloud, fault, 4)
        w.until_up("cg-j1-1")
        w.until_up("cg-j2-1")
        stored = {one.name: one.request_uuid for job in ("j1", "j2") for one in w.attempts(job)}
        assert set(w.cloud.asked_for) == set(stored.items())
        assert len(w.cloud.asked_for) >= (4 if fault == "deaf" else 2)
        assert len(set(stored.values())) == 2


def test_the_orphan_of_a_finished_attempt_is_deleted(sqlite_url: str) -> None:
    """A proxy's 404 closed the attempt while its VM went on: after the grace it is deleted, and the event says why."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        with w.database.write() as connection:
            connection.execute(
                text("UPDATE attempts SET state = 'over', outcome = 'lost', ended_at = made_at, gone_at = made_at")
            )
            connection.execute(text("UPDATE jobs SET state = 'cancelled'"))
        w.settle(9)
        assert len(w.cloud.running()) == 1
        w.settle(10)
        assert w.cloud.running() == []
        (event,) = w.events("OrphanDeleted")
        assert "job j1 is done with the attempt that it was made for" in event.text


def test_a_vm_that_took_the_name_later_is_not_deleted(sqlite_url: str) -> None:
    """An attempt's VM is known by its numeric id: another VM under its name is a stranger's, and stays."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        ours = w.vm()
        w.exit()
        w.cloud.remove(ours, "bob@example.com")
        w.clock.advance(timedelta(minutes=2))
        w.cloud.insert(ours.project, ours.zone, ours.request, "by bob")
        strangers = w.cloud.all[-1]
        strangers.labels = {}
        w.settle(10)
        assert strangers in w.cloud.running()


class Unsteady:
    """A location where the only checkpoint is still written."""

    def listing(self, location: str) -> Listing:
        return Listing(location, {})

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        assert (look_for, earlier) == (LookFor(), None)
        at = datetime(2026, 11, 2, tzinfo=UTC)
        one = Checkpoint(
            Framework.FILES, "ckpt_7.pt", "", 7, CheckpointState.CHANGING, ("it may still be written",), at, 10, examine
        )
        return CheckpointLook(location, self.listing(location), (one,), None)


def test_a_location_that_changes_is_never_the_beginning(sqlite_url: str) -> None:
    """Some other run writes there: the launch waits, and work does not start from step zero in silence."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=CheckpointPlan("gs://acme/run", "--from {checkpoint}"))
        with pytest.raises(CheckpointLocationUnavailable):
            resume.find(Unsteady(), w.job(), [], TERMS, w.clock.now())


@pytest.mark.parametrize(
    ("is_live", "gce_id", "request_uuid", "is_proof"),
    [
        (False, "70000", "", True),
        (False, "70001", "r1", True),
        (False, "70001", "r2", False),
        (False, "70001", "", False),
        (True, "70000", "r1", False),
    ],
)
def test_a_name_proves_no_intent(is_live: bool, gce_id: str, request_uuid: str, is_proof: bool) -> None:
    """An older database that was restored gives names out again: only the VM's id, or the request's, is proof."""
    existing = JobVm(
        1, "j1", "ana@example.com", "cg-j1-1", "us-central1-a", "70000", is_live=is_live, request_uuid="r1"
    )
    assert gave_up(existing, gce_id, request_uuid) is is_proof


def test_an_address_as_a_label() -> None:
    """An address becomes a label only where reading the label would give the same address again."""
    rules = OwnerRules(domain="example.com", addresses={"bo": "bo@partner.org", "ci": "robots@example.com"})
    assert label_of("ana@example.com", rules) == "ana"
    assert label_of("bo@partner.org", rules) == "bo"
    assert label_of("bo@example.com", rules) == ""
    assert label_of("ana.b@example.com", rules) == ""
    assert label_of("ana@elsewhere.org", rules) == ""


def _turn(w: World, monotonic: Callable[[], float]) -> JobsTurn:
    services = TurnServices(w.cloud, w.maker(), w.shelf, lambda *_: T4, restoring.begin)
    rules = TurnRules(w.terms, lambda *_: {})
    return JobsTurn(w.database, w.clock, services, rules, workers=1, monotonic=monotonic)
