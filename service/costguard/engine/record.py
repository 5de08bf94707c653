"""Observation -> ledger: what one look at one project changes, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from costguard.engine import burn_rates
from costguard.engine.launched import launched, launched_by_label
from costguard.engine.ports import Cloud, Presence
from costguard.model.fact import Fact
from costguard.model.instance import InstanceKey, SeenInstance
from costguard.model.observation import Observation, OperationStatus, Unread
from costguard.model.record import KnownInstance
from costguard.model.reminder import Claim
from costguard.policy.ledger import Belonging, account
from costguard.policy.narrate import tell_failed, tell_gap, tell_looks, tell_unwatched
from costguard.policy.timeline import DELETES
from costguard.store import answers, facts, ledger, operations, projects
from costguard.store.lease import Lease
from costguard.store.ledger import Change, Standing
from costguard.store.projects import ProjectLook
from costguard.store.transaction import Database

_AT_ONCE, _BATCH = 8, 32  # VMs whose presence is asked for

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one look at one project came to."""

    project: str
    seen: int = 0
    running: int = 0
    new_or_changed: int = 0
    absent: int = 0  # confirmed to be gone
    missing: int = 0  # not listed, and not confirmed to be gone
    lifetimes: int = 0
    facts: tuple[Fact, ...] = ()
    unread: tuple[Unread, ...] = ()
    error: str = ""  # why nothing could be recorded


def record(
    database: Database, cloud: Cloud, observation: Observation, belonging: Belonging, fence: Lease | None
) -> Recorded:
    """Bring the ledger up to date with one observation. A look that shows nothing new writes one row.

    VMs that are no longer listed are asked for one by one before the transaction begins: only a delete
    operation or a 404 makes a VM gone, never its absence from a list.
    """
    mark = f".{belonging.mark}"  # every VM is sorted again when the rules that sort VMs change
    with database.read() as connection:
        standings = ledger.standings(connection, observation.project)
        ours = launched_by_label(connection, observation)
    if belonging.gpu_only:
        known_or_ours = {*standings, *ours}
        kept = (seen for seen in observation.instances if _has_gpu(seen) or seen.key.gce_id in known_or_ours)
        observation = replace(observation, instances=tuple(kept))
    listed = {seen.key.gce_id: seen for seen in observation.instances}
    # A VM that turns out to be of a job, or of none, is accounted for anew then.
    marks = {gce_id: f"{mark}.{ours[gce_id].job}" if gce_id in ours else mark for gce_id in listed}
    changed = {
        gce_id: _marked(seen, marks[gce_id])
        for gce_id, seen in listed.items()
        if (known := standings.get(gce_id)) is None or known.fingerprint != seen.fingerprint + marks[gce_id]
    }
    absent, missing = _absences(cloud, observation, standings, listed)
    with database.write(fence) as connection:
        changes, written, unread = _account_all(connection, observation, belonging, changed, absent, marks)
        saved = ledger.save(connection, changes)
        burn_rates.keep_of(connection, observation.project, changes, observation.read_at)
        looked = replace(observation, unread=observation.unread + unread)
        before = projects.last_look(connection, observation.project)
        told = (*written, *tell_looks(looked, before.unread if before is not None else ()))
        if before is not None and before.operations_through_at and observation.operations_through_at:
            gap = tell_gap(observation.project, before.operations_through_at, observation.read_at)
            told = (*told, *([gap] if gap else []))
        facts.append(connection, told, observation.read_at)
        projects.record_look(connection, looked, observation.read_at)
    return Recorded(
        project=observation.project,
        seen=len(listed),
        running=sum(seen.status.bills_machine for seen in listed.values()),
        new_or_changed=saved.instances,
        absent=len(absent),
        missing=missing,
        lifetimes=saved.lifetimes,
        facts=told,
        unread=looked.unread,
    )


def close_account(database: Database, look: ProjectLook, belonging: Belonging, fence: Lease | None) -> None:
    """End the account of a project that is not watched any more at its last look, all ends being estimates.

    What ran then would otherwise go on costing for ever. When the project is watched again, what still runs
    goes on from where it was.
    """
    project, last_at = look.project, look.last_tried_at
    with database.write(fence) as connection:
        gce_ids = sorted(ledger.standings(connection, project))
        known = ledger.load(connection, project, gce_ids)
        done = operations.of_targets(connection, project, gce_ids)
        claimed = _claims(connection, known)
        of_jobs = launched(connection, project, gce_ids, {}, known, done)
        changes = []
        for gce_id in gce_ids:
            key, found = InstanceKey(project, gce_id), known[gce_id]
            entry = account(
                key,
                found,
                None,
                done.get(gce_id, []),
                belonging,
                last_at,
                last_at,
                absent=True,
                claim=claimed.get(gce_id),
                launched=of_jobs.get(gce_id),
            )
            if entry is not None:
                changes.append(Change(entry.record, found, entry.lifetimes, entry.storage))
        ledger.save(connection, changes)
        burn_rates.keep_of(connection, project, changes, last_at)
        facts.append(connection, [tell_unwatched(project, last_at, len(changes))], last_at)
        projects.forget(connection, project)


def _has_gpu(seen: SeenInstance) -> bool:
    """Also when the machine type could not be looked up: it may have GPUs built in."""
    return seen.shape.gpu_count > 0 or not seen.shape.is_known


def _absences(
    cloud: Cloud, observation: Observation, standings: Mapping[str, Standing], listed: Mapping[str, SeenInstance]
) -> tuple[set[str], int]:
    """Ids that are confirmed to be gone, and how many are merely missing from what was read."""
    unlisted = [(gce_id, known) for gce_id, known in standings.items() if gce_id not in listed]
    deleted = {
        op.target_id
        for op in observation.operations
        if op.kind in DELETES and op.status is OperationStatus.DONE and op.error_code is None
    }
    gone, asked = set(), []
    for gce_id, known in unlisted:
        if gce_id in deleted:
            gone.add(gce_id)
        elif observation.instances_complete and known.zone not in observation.unread_zones:
            asked.append((gce_id, known))
    gone |= _confirmed(cloud, observation.project, asked)
    return gone, len(unlisted) - len(gone)


def _confirmed(cloud: Cloud, project: str, asked: Sequence[tuple[str, Standing]]) -> set[str]:
    """Many at once, since a region's VMs may vanish together. Once nothing is answered, the rest waits for a pass."""
    gone: set[str] = set()
    if not asked:
        return gone

    def ask(one: tuple[str, Standing]) -> Presence:
        gce_id, known = one
        return cloud.presence(InstanceKey(project, gce_id), known.zone, known.name)

    with ThreadPoolExecutor(min(len(asked), _AT_ONCE), thread_name_prefix="presence") as pool:
        for begin in range(0, len(asked), _BATCH):
            batch = asked[begin : begin + _BATCH]
            answers = list(pool.map(ask, batch))
            gone |= {gce_id for (gce_id, _), answer in zip(batch, answers, strict=True) if answer is Presence.GONE}
            if Presence.NOT_KNOWN in answers and len(set(answers)) == 1:
                break
    return gone


def _account_all(
    connection: Connection,
    observation: Observation,
    belonging: Belonging,
    changed: Mapping[str, SeenInstance],
    absent: Iterable[str],
    marks: Mapping[str, str],
) -> tuple[list[Change], tuple[Fact, ...], tuple[Unread, ...]]:
    project, read_at = observation.project, observation.read_at
    news = operations.record(connection, observation.operations)
    gone = set(absent)
    gce_ids = sorted({*changed, *gone, *(op.target_id for op in news)})
    known = ledger.load(connection, project, gce_ids)
    all_operations = operations.of_targets(connection, project, gce_ids)
    # An unchanged VM whose operations changed is accounted for with its listing as well.
    listed = {seen.key.gce_id: seen for seen in observation.instances} if gce_ids else {}
    watched_since = projects.watched_since(connection, project) or read_at
    claimed = _claims(connection, known)
    of_jobs = launched(connection, project, gce_ids, listed, known, all_operations)
    changes, told, unread = [], [fact for op in news if (fact := tell_failed(op)) is not None], []
    for gce_id in gce_ids:
        seen = changed.get(gce_id)
        if seen is None and gce_id in listed:
            seen = _marked(listed[gce_id], marks[gce_id])
        if belonging.gpu_only and seen is None and gce_id not in known and gce_id not in of_jobs:
            continue
        try:
            entry = account(
                InstanceKey(project, gce_id),
                known.get(gce_id),
                seen,
                all_operations.get(gce_id, []),
                belonging,
                read_at,
                watched_since,
                absent=gce_id in gone,
                claim=claimed.get(gce_id),
                launched=of_jobs.get(gce_id),
            )
        except Exception as error:  # one VM's oddity must not keep the others out of the ledger
            log.exception("instance_not_recorded", project=project, gce_id=gce_id)
            name = seen.name if seen is not None else gce_id
            unread.append(_not_recorded(name, error))
            continue
        if entry is not None:
            changes.append(Change(entry.record, known.get(gce_id), entry.lifetimes, entry.storage))
            told.extend(entry.facts)
    return changes, tuple(told), tuple(unread)


def _claims(connection: Connection, known: Mapping[str, KnownInstance]) -> dict[str, Claim]:
    """The latest claim of each VM of which there is one."""
    claims = answers.claims_of(connection, [found.id for found in known.values()])
    return {gce_id: claims[found.id][-1] for gce_id, found in known.items() if claims.get(found.id)}


def _marked(seen: SeenInstance, mark: str) -> SeenInstance:
    return replace(seen, fingerprint=seen.fingerprint + mark)


def _not_recorded(name: str, error: Exception) -> Unread:
    return Unread(
        scope=f"instance {name}",
        code="not_recorded",
        reason=f"{name} could not be recorded ({type(error).__name__}: {error}). "
        "It is tried again at every pass; the log holds the trace to report.",
    )


def failed(observation: Observation, error: Exception) -> Recorded:
    """The report of a project whose look could not be written down."""
    return Recorded(project=observation.project, unread=observation.unread, error=str(error))
