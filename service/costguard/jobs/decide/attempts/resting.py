"""Says of a VM that is stopped to be started again whether it is down, and whether it can start."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.jobs.decide.view import AttemptView, JobContext, JobView, VmState, of_attempt
from costguard.model.attempt import Outcome
from costguard.model.instance import Status

_DOWN = frozenset({Status.STOPPED, Status.SUSPENDED, Status.STOPPING, Status.SUSPENDING, Status.DEPROVISIONING})
_GOOGLES = frozenset({Outcome.PREEMPTED, Outcome.HOST_ERROR, Outcome.TIME_LIMIT})
_GOES_DOWN = timedelta(minutes=3)


def is_up_still(seen: AttemptView, view: JobView, context: JobContext) -> bool:
    """Says whether the VM of the run that ended may be up and will not go down by itself, as those that Google
    ends do.
    """
    ended = of_attempt(seen.attempt, view.interruptions)
    if not ended or seen.attempt.rested_at is not None or context.now < goes_down_by(seen, view):
        return False
    vm = _of_last_run(seen, view)
    if vm is None:
        return True  # the ledger has not seen it yet: a look will tell
    is_new = vm.started_at is not None and vm.started_at > ended[-1].happened_at
    return vm.is_known and vm.status not in _DOWN and not is_new


def goes_down_by(seen: AttemptView, view: JobView) -> datetime:
    """Returns when a VM that Google ends is down; at once where it was not Google."""
    last = of_attempt(seen.attempt, view.interruptions)[-1:]
    if not last:
        return seen.attempt.intended_at
    return last[0].happened_at + (_GOES_DOWN if last[0].outcome in _GOOGLES else timedelta())


def can_start(seen: AttemptView, view: JobView) -> bool:
    """Says whether it can start: once it has stopped.

    A VM that a user started meanwhile is started again, which Google accepts as done.
    """
    vm, ended = _of_last_run(seen, view), of_attempt(seen.attempt, view.interruptions)
    if seen.attempt.rested_at is not None and (vm is None or vm.is_known):
        return True
    if vm is None or not vm.is_known:
        return False
    is_new = bool(ended) and vm.started_at is not None and vm.started_at > ended[-1].happened_at
    return vm.status is Status.STOPPED or (vm.status is Status.RUNNING and is_new)


def _of_last_run(seen: AttemptView, view: JobView) -> VmState | None:
    """Returns the ledger's state of it, unless that is older than the run that ended last."""
    vm, before = seen.vm, of_attempt(seen.attempt, view.interruptions)[-2:-1]
    if vm is None or not before or vm.gone_at is not None:
        return vm
    return vm if vm.started_at is not None and vm.started_at > before[0].happened_at else None
