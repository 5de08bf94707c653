"""The agent of a VM that a group made is given its attempt's token, and no other VM's agent is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Connection
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.errors import CostguardError, Forbidden, SignInUnavailable, Unavailable
from costguard.jobs.reports.agent_events import AgentTokens
from costguard.jobs.reports.vm_claims import VmClaim, VmClaims
from costguard.jobs.rows import attempts
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import ProvenVm, ProvisioningModel

JOB = "j7k2m9q4"
GUARD = "https://guard.example.com"
TOKENS = AgentTokens(b"k" * 32)
SECRET = "a secret of the agent on this VM.."
FIRST = ProvenVm("acme-training", "us-central1-a", f"cg-{JOB}-1", "71")
SECOND = ProvenVm("acme-training", "us-central1-a", f"cg-{JOB}-2", "72")


class Google:
    """Says of each document which VM it was made on; of an unknown one, that nobody can tell."""

    def __init__(self) -> None:
        self.vms = {"first": FIRST, "second": SECOND}
        self.audiences: list[str] = []

    def __call__(self, document: str, audience: str) -> ProvenVm:
        self.audiences.append(audience)
        if document not in self.vms:
            raise SignInUnavailable("Google's keys do not answer.")
        return self.vms[document]


class Ground:
    """Two VMs of a gang whose group made them, with the ids that the guard saw."""

    def __init__(self, database: Database) -> None:
        self.database, self.google = database, Google()
        self.claims = VmClaims(database, self.google, TOKENS.of, GUARD)
        with database.write() as connection:
            job_rows.added(connection)
            for number, vm in enumerate((FIRST, SECOND), 1):
                self._attempt(connection, number, vm)

    def _attempt(self, connection: Connection, number: int, vm: ProvenVm) -> None:
        made = attempts.intend(
            connection,
            attempts.NewAttempt(
                JOB, number, vm.name, vm.project, vm.zone, "nvidia-tesla-a100", ProvisioningModel.FLEX_START,
                "uuid", timedelta(hours=1), NOW, node=number - 1, formation=1, vm_group=f"cg-{JOB}-1-00000000",
                resize_request="r1",
            ),
        )  # fmt: skip
        assert made is not None
        self.set(connection, number, AttemptState.BOOTING, gce_id=vm.gce_id)

    def set(self, connection: Connection, number: int, state: AttemptState, **changes: object) -> None:
        named = attempts.by_name(connection, "acme-training", f"cg-{JOB}-{number}")
        assert named is not None
        attempts.change(connection, named.id, list(AttemptState), state=state, **changes)  # type: ignore[arg-type]  # by their names

    def change(self, number: int, state: AttemptState, **changes: object) -> None:
        with self.database.write() as connection:
            self.set(connection, number, state, **changes)

    def refusal(self, document: str = "first", secret: str = SECRET, job: str = JOB) -> CostguardError:
        with pytest.raises((Forbidden, Unavailable)) as refused:
            self.claims.answer(VmClaim(job, document, secret))
        error = refused.value
        assert isinstance(error, CostguardError)
        assert secret not in str(error)
        return error


@pytest.fixture
def ground(database: Database) -> Ground:
    return Ground(database)


def test_each_vm_gets_its_own_attempts_token(ground: Ground) -> None:
    """The audience that Google signed for is this guard and this job."""
    first = ground.claims.answer(VmClaim(JOB, "first", SECRET))
    second = ground.claims.answer(VmClaim(JOB, "second", "another agent's own".ljust(32, ".")))
    assert (first.attempt, first.token, first.node) == (FIRST.name, TOKENS.of(FIRST.name), 0)
    assert (second.attempt, second.token, second.node) == (SECOND.name, TOKENS.of(SECOND.name), 1)
    assert set(ground.google.audiences) == {f"{GUARD}/jobs/{JOB}"}


def test_a_repeat_of_the_same_agent_is_answered_alike(ground: Ground) -> None:
    """The first answer may have been lost; and a guard that began again knows the agent still."""
    answers = [ground.claims.answer(VmClaim(JOB, "first", SECRET)) for _ in range(2)]
    ground.claims = VmClaims(ground.database, ground.google, TOKENS.of, GUARD)
    assert {*answers, ground.claims.answer(VmClaim(JOB, "first", SECRET))} == {answers[0]}


def test_a_document_that_another_vm_sends_again_is_refused(ground: Ground) -> None:
    """A VM of the same gang that got hold of it does not know the secret."""
    ground.claims.answer(VmClaim(JOB, "first", SECRET))
    error = ground.refusal(secret="of the second VM's agent".ljust(32, "."))
    assert isinstance(error, Forbidden)
    assert "given to its agent before" in error.message


@pytest.mark.parametrize(
    ("vm", "why"),
    [
        (FIRST._replace(gce_id="99"), "another id"),
        (FIRST._replace(project="acme-research"), "is none that job"),
        (FIRST._replace(zone="us-central1-b"), "is none that job"),
        (FIRST._replace(name=f"cg-{JOB}-9", gce_id="79"), "is none that job"),
    ],
    ids=["another VM of this name", "of another project", "of another zone", "of the group, and of no request"],
)
def test_another_vm_is_refused(ground: Ground, vm: ProvenVm, why: str) -> None:
    """The numeric id decides, and what the guard saw of its own request."""
    ground.google.vms["first"] = vm
    error = ground.refusal()
    assert isinstance(error, Forbidden)
    assert why in error.message


def test_a_vm_of_another_job_is_refused(ground: Ground) -> None:
    """The job that the claim names is that of the audience, and the VM is of none of its attempts."""
    assert isinstance(ground.refusal(job="another"), Forbidden)


def test_a_vm_that_no_group_made_is_refused(ground: Ground) -> None:
    """The token of such a VM lies in its own metadata."""
    with ground.database.write() as connection:
        job_rows.attempt(connection, number=3, state=AttemptState.BOOTING, gce_id="73")
    ground.google.vms["third"] = FIRST._replace(name=f"cg-{JOB}-3", gce_id="73")
    assert isinstance(ground.refusal("third"), Forbidden)


def test_a_vm_that_was_not_seen_yet_is_told_to_ask_again(ground: Ground) -> None:
    """A name alone proves nothing, and a 503 is no refusal."""
    ground.change(1, AttemptState.ASKED, gce_id="")
    error = ground.refusal()
    assert isinstance(error, Unavailable)
    assert "has not seen VM 71 yet" in error.message
    ground.change(1, AttemptState.BOOTING, gce_id="71")
    assert ground.claims.answer(VmClaim(JOB, "first", SECRET)).attempt == FIRST.name


def test_an_attempt_that_ended_has_no_token_to_give(ground: Ground) -> None:
    """The VM is about to go."""
    ground.change(1, AttemptState.ENDING, outcome=Outcome.CANCELLED)
    assert "is over" in ground.refusal().message


def test_keys_that_do_not_answer_are_no_refusal(ground: Ground) -> None:
    """Nothing is recorded, and the agent asks again."""
    error = ground.refusal("unknown")
    assert isinstance(error, SignInUnavailable)
    with ground.database.read() as connection:
        first = attempts.by_name(connection, FIRST.project, FIRST.name)
    assert first is not None
    assert first.claimed_by == ""
