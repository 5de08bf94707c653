"""Gives the agent of a VM that a group made its attempt's token, once it has proven by Google which VM it is.

The VMs of a group have one template, and so one metadata table: no token can lie in it, for each speaks for one attempt
alone.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from costguard.db.transaction import Database
from costguard.errors import Forbidden, Unavailable
from costguard.jobs.rows import attempts
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.instance import ProvenVm, audience_of

_THERE = (AttemptState.BOOTING, AttemptState.RUNNING)
_AGAIN = "Send it again in a moment."

ReadDocument = Callable[[str, str], ProvenVm]  # document, audience; raises SignInRefused


@dataclass(frozen=True, slots=True)
class VmClaim:
    """An agent's request. `secret` is its own, made on the VM and kept there, so that a repeat is known as its own."""

    job_id: str
    document: str
    secret: str


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The part of an agent's settings that its VM's metadata do not hold."""

    attempt: str
    token: str
    node: int
    image: str  # "" for none, or as in the metadata


class VmClaims:
    """Answers each instance once: a repeat with the same secret gets the same answer, and another secret none."""

    def __init__(self, database: Database, read: ReadDocument, token_of: Callable[[str], str], guard_url: str) -> None:
        self._database = database
        self._read = read
        self._token_of = token_of
        self._guard_url = guard_url

    def answer(self, claim: VmClaim) -> ClaimAnswer:
        """Raises Forbidden for any VM but one of the job's own groups, as its numeric id proves; and Unavailable, or
        SignInUnavailable, while that is not known.
        """
        vm = self._read(claim.document, audience_of(self._guard_url, claim.job_id))
        digest = hashlib.sha256(claim.secret.encode()).hexdigest()
        with self._database.write() as connection:
            attempt = attempts.by_name(connection, vm.project, vm.name)
            if attempt is None or attempt.job_id != claim.job_id or not attempt.vm_group or attempt.zone != vm.zone:
                raise Forbidden(f"VM {vm.gce_id} is none that job {claim.job_id} requested by a group.")
            if not attempt.is_open:
                raise Forbidden(f"The attempt of VM {vm.gce_id} is over.")
            if not attempt.gce_id or attempt.state not in _THERE:
                raise Unavailable(f"This guard has not seen VM {vm.gce_id} yet.", _AGAIN)
            if attempt.gce_id != vm.gce_id:
                raise Forbidden(f"The VM named {vm.name} has another id than VM {vm.gce_id}.")
            if not attempt.claimed_by:
                attempts.change(connection, attempt.id, _THERE, claimed_by=digest)
            elif not hmac.compare_digest(attempt.claimed_by, digest):
                raise Forbidden(f"The token of VM {vm.gce_id} was given to its agent before.")
        return self._of(attempt)

    def _of(self, attempt: Attempt) -> ClaimAnswer:
        return ClaimAnswer(attempt.name, self._token_of(attempt.name), attempt.node, attempt.image)
