"""Compares what a look showed with what the ledger holds of the same VMs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from costguard.ledger.lifetimes import ListedVm
from costguard.ledger.timeline import DELETES
from costguard.model.instance import SeenInstance
from costguard.model.observation import Observation, OperationStatus, UnchangedVm


@dataclass(frozen=True, slots=True)
class ComparedVms:
    """The VMs of a look, and in what the ledger differs from it.

    `changed` came whole and are new to the ledger, or were something else there. `to_read` are unchanged since the look
    before, and the ledger holds something else all the same: it was restored, another process recorded them, or they
    are to be accounted for again.
    """

    listed: Mapping[str, SeenInstance]
    changed: frozenset[str]
    to_read: frozenset[str]
    unlisted: tuple[tuple[str, ListedVm], ...]  # in the ledger, and not in the look


def recorded_part(observation: Observation, known_ids: Collection[str], gpu_only: bool) -> Observation:
    """The look without the VMs that are passed over: those without a GPU, unless they are among the `known_ids`."""
    if not gpu_only:
        return observation
    whole = [seen for seen in observation.instances if has_gpu(seen) or seen.key.gce_id in known_ids]
    unchanged = [one for one in observation.unchanged if one.may_have_gpu or one.gce_id in known_ids]
    return replace(observation, instances=tuple(whole), unchanged=tuple(unchanged))


def compared(
    observation: Observation, standings: Mapping[str, ListedVm], marks: Mapping[str, str], mark: str
) -> ComparedVms:
    """`mark` follows the fingerprint of each VM in the ledger; `marks` are those of the VMs of jobs, by id."""
    listed = {seen.key.gce_id: seen for seen in observation.instances}
    changed = [gce_id for gce_id, seen in listed.items() if not _is_same(standings, gce_id, seen, marks, mark)]
    to_read = [one.gce_id for one in observation.unchanged if not _is_same(standings, one.gce_id, one, marks, mark)]
    unlisted: list[tuple[str, ListedVm]] = []
    if changed or to_read or len(standings) != len(listed) + len(observation.unchanged):
        there = {*listed, *(one.gce_id for one in observation.unchanged)}
        unlisted = [(gce_id, standing) for gce_id, standing in standings.items() if gce_id not in there]
    return ComparedVms(listed, frozenset(changed), frozenset(to_read), tuple(unlisted))


def _is_same(
    standings: Mapping[str, ListedVm],
    gce_id: str,
    seen: SeenInstance | UnchangedVm,
    marks: Mapping[str, str],
    mark: str,
) -> bool:
    """Compares fingerprint and mark without joining them, a hundred thousand times a pass."""
    standing = standings.get(gce_id)
    if standing is None:
        return False
    stored, own = standing.fingerprint, seen.fingerprint
    return stored.startswith(own) and stored[len(own) :] == (marks.get(gce_id, mark) if marks else mark)


def has_gpu(seen: SeenInstance) -> bool:
    """Says whether it has a GPU; also when the machine type could not be looked up: it may have GPUs built in."""
    return seen.shape.gpu_count > 0 or not seen.shape.is_known


def deleted(observation: Observation) -> set[str]:
    """The VMs that operations of this look deleted."""
    return {
        op.target_id
        for op in observation.operations
        if op.kind in DELETES and op.status is OperationStatus.DONE and op.error_code is None
    }


def may_be_gone(observation: Observation, standing: ListedVm) -> bool:
    """Says whether the list that this VM is missing from was read: then it is to be asked for."""
    return observation.instances_complete and standing.zone not in observation.unread_zones


def running(observation: Observation) -> int:
    """The number of its VMs whose machines bill."""
    whole = sum(seen.status.bills_machine for seen in observation.instances)
    return whole + sum([one.bills_machine for one in observation.unchanged])
