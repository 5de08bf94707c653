"""Makes a VM's record, and the events of its changes, from an observation and operations. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b

from costguard.keepers.reading import recorded_keeper
from costguard.ledger.billed.addresses import addresses_of
from costguard.ledger.billed.storage import MEMORY, disks_of, saved_memory_of
from costguard.ledger.feed.unlisted import (
    as_listed,
    requested_disks,
    unseen_record,
    was_accepted,
    was_listed,
    with_better_starts,
    with_bounds,
)
from costguard.ledger.gone import gone_since
from costguard.ledger.narrate import tell
from costguard.ledger.owner import OwnerRules, classify, owner_of
from costguard.ledger.stamps import believable_operations, stamped
from costguard.ledger.timeline import SAME_START, STARTS, Run, ages_of, created_by, runs_of
from costguard.model.event import Event
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.lifetime import ADDRESS, Attribution, Lifetime, StorageSpan
from costguard.model.observation import SeenOperation
from costguard.model.preset import Preset
from costguard.model.record import InstanceRecord, KnownInstance, LaunchedFor, VmRequested
from costguard.model.reminder import Claim

_RESHAPES = frozenset({"setMachineType", "setMachineResources", "setScheduling"})


@dataclass(frozen=True, slots=True)
class Belonging:
    """The rule for which VMs are recorded, and how each gets a preset and an owner.

    With `gpu_only`, a VM without a GPU is passed over, unless it is in the ledger already or was launched for a job. So
    is one that came and went between two looks, because nothing tells whether it had a GPU.
    """

    presets: tuple[Preset, ...]
    owners: OwnerRules
    gpu_only: bool = False

    @property
    def mark(self) -> str:
        """Changes with the rules that sort VMs, and with nothing else: the same in every process.

        Sets are written out sorted, because Python orders a set of texts differently in each process.
        """
        rules = {
            "presets": [(preset.name, asdict(preset.match)) for preset in self.presets],
            "owners": asdict(self.owners),
            "gpu_only": self.gpu_only,
        }
        text = json.dumps(rules, sort_keys=True, default=sorted)
        return blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """All that is known of one VM at `read_at`, in a project that is watched since `watched_since`.

    `operations` are all that the ledger holds for this VM, `claim` is the latest one of it, `launched` the job that
    it was made for, which says before all else whose it is. `absent` says that a whole list did not have it.
    """

    stored: KnownInstance | None
    seen: SeenInstance | None
    operations: Sequence[SeenOperation]
    read_at: datetime
    watched_since: datetime
    absent: bool = False
    claim: Claim | None = None
    launched: LaunchedFor | None = None
    requested: VmRequested | None = None  # of a VM that no look has shown
    from_entries: Mapping[datetime, SeenOperation] = field(default_factory=dict)  # by ends that the feed told of


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one VM: its record, and the lifetimes and storage spans that are new or changed."""

    record: InstanceRecord
    lifetimes: tuple[Lifetime, ...]
    storage: tuple[StorageSpan, ...]
    events: tuple[Event, ...]


def account(key: InstanceKey, facts: KnownFacts, belonging: Belonging) -> Entry | None:
    """Bring one VM's record up to date with all that is known of it; repeating it changes nothing more.

    None: there is nothing to record, as for a VM that was gone before this project was watched, or whose creation
    failed.
    """
    in_ledger, ops = facts.stored, believable_operations(facts.operations, facts.read_at)
    ops = ops if was_listed(in_ledger) else with_bounds(key, ops, facts.requested)
    facts = replace(facts, operations=ops, seen=stamped(facts.seen, in_ledger, ops, facts.read_at))
    if in_ledger is not None and facts.from_entries:
        facts = replace(facts, stored=with_better_starts(in_ledger, facts.from_entries, facts.seen))
    stored, read_at = facts.stored, facts.read_at
    believed = _without_requests(facts)
    runs = runs_of(stored.lifetimes if stored else (), believed, facts.seen, read_at, facts.absent)
    gone_at = gone_since(stored, facts.seen, facts.operations, runs, absent_at=read_at if facts.absent else None)
    was_missed = stored is None and facts.seen is None
    is_awaited = facts.requested is not None and gone_at is None and was_accepted(facts.operations)
    if was_missed and not is_awaited and (not runs or (gone_at or runs[-1].ended_at or read_at) < facts.watched_since):
        return None
    record = _record(key, facts, belonging, gone_at, runs)
    # As they are stored, by the starts that are known now.
    before = (
        {}
        if in_ledger is None or stored is None
        else dict(zip((life.started_at for life in stored.lifetimes), in_ledger.lifetimes, strict=True))
    )
    lifetimes = _lifetimes(key, stored, record, runs, believed)
    lifetimes = tuple(life for life in lifetimes if life != before.get(life.started_at))
    spans = in_ledger.storage if in_ledger is not None else ()
    storage = tuple(span for span in _storage(facts, record, runs) if span not in spans)
    return Entry(record, lifetimes, storage, tell(stored, record, lifetimes, read_at))


_LONGER_THAN_A_REQUEST = timedelta(seconds=30)
_NOT_UP = frozenset({Status.PENDING, Status.PROVISIONING, Status.STAGING})


def _without_requests(facts: KnownFacts) -> Sequence[SeenOperation]:
    """Leaves out the insert of a flex-start VM that waits, or waited: it made a request, which does not bill.

    That its operation is done says nothing of a run while the VM is listed as PENDING; once it runs, its start stamp
    says since when, or the ledger, where it is gone. A start that another operation tells is of a later run.
    """
    seen, stored = facts.seen, facts.stored
    model = seen.provisioning_model if seen is not None else stored.record.provisioning_model if stored else None
    if model is None and facts.requested is not None:
        model = facts.requested.provisioning_model
    if model is not ProvisioningModel.FLEX_START:
        return facts.operations
    status = seen.status if seen is not None else stored.record.status if stored else Status.PROVISIONING
    starts = [life.started_at for life in stored.lifetimes] if stored is not None else []
    if seen is not None and seen.last_started_at is not None:
        starts.append(seen.last_started_at)
    again = [op for op in facts.operations if op.kind in STARTS and op.kind != "insert" and op.ended_at is not None]
    granted = [at for at in starts if not any(abs(at - op.ended_at) <= SAME_START for op in again if op.ended_at)]
    began_at = min(granted, default=None)

    def only_asked(op: SeenOperation) -> bool:
        if op.kind != "insert" or op.ended_at is None:
            return False
        return status in _NOT_UP and not again if began_at is None else began_at > op.ended_at + SAME_START

    granted_at = None if seen is not None or began_at is not None or again else _granted_unseen(facts)
    if granted_at is not None:
        return [replace(op, ended_at=granted_at) if only_asked(op) else op for op in facts.operations]
    return [op for op in facts.operations if not only_asked(op)]


def _granted_unseen(facts: KnownFacts) -> datetime | None:
    """Returns when a flex-start VM that is gone, and was never seen up, began to run; None where nothing says it did.

    An insert that ended after the VM was seen to wait ended with the grant: one that is done at once takes seconds
    (recorded: 6.5 to 9.1 s). Else its agent's report says that it ran by then.
    """
    if facts.stored is not None:
        waited_at = facts.stored.record.first_seen_at
        for op in facts.operations:
            if op.kind != "insert" or op.ended_at is None or op.error_code is not None:
                continue
            if op.ended_at >= waited_at and op.ended_at - op.inserted_at >= _LONGER_THAN_A_REQUEST:
                return op.ended_at
    return facts.launched.ran_from if facts.launched is not None else None


def _record(
    key: InstanceKey, facts: KnownFacts, belonging: Belonging, gone_at: datetime | None, runs: Sequence[Run]
) -> InstanceRecord:
    stored, seen, operations, launched = facts.stored, facts.seen, facts.operations, facts.launched
    creator = created_by(operations) or (stored.record.created_by if stored else "")
    if seen is not None:
        base = InstanceRecord(
            key=key,
            name=seen.name,
            zone=seen.zone,
            status=seen.status,
            created_at=seen.created_at,
            shape=seen.shape if seen.shape.is_known or stored is None else _kept_shape(stored.record.shape, seen.shape),
            provisioning_model=seen.provisioning_model,
            attribution=Attribution(),
            fingerprint=seen.fingerprint,
            first_seen_at=stored.record.first_seen_at if stored else facts.read_at,
            labels=seen.labels,
            origin=seen.origin,
            last_started_at=seen.last_started_at,
            last_stopped_at=seen.last_stopped_at,
            termination_at=seen.termination_at,
        )
    elif stored is not None and (was_listed(stored) or not operations):
        base = stored.record
    else:
        base = unseen_record(key, stored, operations, facts.requested, runs, facts.read_at)
        if launched is not None:
            base = replace(base, provisioning_model=launched.provisioning_model)
    job = launched.job if launched else ""
    # A keeper is known of what a look has shown.
    keeper = recorded_keeper(base.labels, base.origin, base.zone, job) if seen is not None or job else base.keeper
    asked_by = launched.owner if launched else None
    owner = owner_of(base.labels, creator, asked_by, belonging.owners, facts.claim, keeper)
    preset = classify(base.labels, base.shape, belonging.presets)
    return replace(
        base,
        keeper=keeper,
        created_by=creator,
        attribution=Attribution(preset, owner.address, job),
        owner_source=owner.source.value,
        gone_at=gone_at,
    )


def _kept_shape(stored: Shape, seen: Shape) -> Shape:
    """A machine type that could not be looked up this time is the one looked up before."""
    return stored if stored.machine_type == seen.machine_type else seen


def _lifetimes(
    key: InstanceKey,
    stored: KnownInstance | None,
    record: InstanceRecord,
    runs: Sequence[Run],
    operations: Sequence[SeenOperation],
) -> tuple[Lifetime, ...]:
    """All lifetimes, as they are known now."""
    before = {life.started_at: life for life in stored.lifetimes} if stored else {}
    changed = []
    ages = ages_of(runs, operations)
    for run in runs:
        old = before.get(run.started_at)
        if old is None:
            shape, model = _made_of(stored, record, run, operations)
            life = Lifetime(key, run.started_at, shape, model, record.zone)
        else:
            life = _completed(old, record)
        life = replace(
            life,
            ended_at=run.ended_at,
            end_reason=run.reason,
            ended_by=run.by,
            end_is_estimate=run.end_is_estimate,
            # Google forgets operations: what was known of a start stays.
            age_from=ages[run.started_at] or (old.age_from if old is not None else None),
        )
        changed.append(life)
    return tuple(changed)


def _completed(life: Lifetime, record: InstanceRecord) -> Lifetime:
    """Adds the facts that were not known when it was stored, unless the VM has been remade since."""
    if not life.shape.machine_type:  # nobody had seen the VM
        return replace(life, shape=record.shape, provisioning_model=record.provisioning_model)
    if not life.shape.is_known and life.shape.machine_type == record.shape.machine_type:
        return replace(life, shape=record.shape)
    return life


def _made_of(
    stored: KnownInstance | None, record: InstanceRecord, run: Run, operations: Sequence[SeenOperation]
) -> tuple[Shape, ProvisioningModel]:
    """A run that is over, learned of after the VM was remade, was made of what was known before."""
    remade = any(
        op.kind in _RESHAPES and op.error_code is None and op.inserted_at > run.started_at for op in operations
    )
    if stored is not None and remade and run.ended_at is not None:
        return stored.record.shape, stored.record.provisioning_model
    return record.shape, record.provisioning_model


def _storage(facts: KnownFacts, record: InstanceRecord, runs: Sequence[Run]) -> tuple[StorageSpan, ...]:
    key, stored, seen, operations, read_at = record.key, facts.stored, facts.seen, facts.operations, facts.read_at
    before = stored.storage if stored else ()
    was_seen = was_listed(stored)
    # What ended as the VM went ends with it again when that moment moves, and goes on when the VM is back.
    went_at = stored.record.gone_at if stored else None
    disks = [
        replace(span, ended_at=None) if span.ended_at is not None and span.ended_at == went_at else span
        for span in before
        if span.name not in (MEMORY, ADDRESS)
    ]
    if was_seen and stored is not None and seen is not None:
        disks = _from_an_earlier_run(disks, stored.lifetimes, seen, _account_from(facts, record, runs))
    if seen is not None and (record.gone_at is None or not was_seen):
        since = read_at if was_seen else _account_from(facts, record, runs)
        if was_seen:
            changed = disks_of(key, disks, seen, operations, since, False, read_at)
            fresh = {(span.name, span.started_at) for span in changed}
            disks = [span for span in disks if (span.name, span.started_at) not in fresh] + changed
        else:
            disks = as_listed(disks, disks_of(key, [], seen, operations, since, True, read_at))
    if seen is None and facts.requested is not None and not was_seen and runs:
        disks += requested_disks(record, facts.requested, disks)
    if record.gone_at is not None:
        gone_at = record.gone_at
        disks = [
            replace(span, ended_at=max(gone_at, span.started_at))
            if span.ended_at is None or span.ended_at > gone_at
            else span
            for span in disks
        ]
    memory = saved_memory_of(key, runs, operations, record.shape.memory_mib, record.zone, record.gone_at, seen, read_at)
    addresses = _addresses(facts, record, runs)
    return (*disks, *_merged(before, memory), *addresses)


def _addresses(facts: KnownFacts, record: InstanceRecord, runs: Sequence[Run]) -> list[StorageSpan]:
    stored, seen = facts.stored, facts.seen
    request = facts.requested if not was_listed(stored) else None
    spans = addresses_of(
        record,
        [span for span in (stored.storage if stored else ()) if span.name == ADDRESS],
        stored.lifetimes if stored else (),
        runs,
        seen,
        facts.operations,
        facts.read_at,
        requested=request.addresses if request is not None else 0,
    )
    gone_at = record.gone_at
    return [
        replace(span, ended_at=max(gone_at, span.started_at)) if gone_at is not None and span.ended_at is None else span
        for span in spans
    ]


def _from_an_earlier_run(
    disks: Sequence[StorageSpan], lifetimes: Sequence[Lifetime], seen: SeenInstance, since: datetime
) -> list[StorageSpan]:
    """Disks that were counted from the first run that was known, from `since` once an earlier one came to light.

    Not every operation can be read in each look: the first one may miss those that tell of earlier runs.
    """
    first = min((life.started_at for life in lifetimes), default=since)
    created = {disk.name: disk.created_at for disk in seen.disks}
    counted: list[StorageSpan] = []
    for span in disks:
        begins = max(since, created.get(span.name) or first)
        if span.started_at == first and begins < first and span.ended_at != first:
            counted.append(replace(span, ended_at=span.started_at))
            span = replace(span, id=None, started_at=begins)
        counted.append(span)
    return counted


def _merged(before: Sequence[StorageSpan], memory: Sequence[StorageSpan]) -> list[StorageSpan]:
    """Saved memory as it is stored, brought up to date. What was taken for a suspension and was none lasts no time."""
    stored = {span.started_at: span for span in before if span.name == MEMORY}
    merged = [
        span
        if (old := stored.pop(span.started_at, None)) is None
        else replace(span if old.resource is None else old, ended_at=span.ended_at, id=old.id)
        for span in memory
    ]
    return merged + [replace(span, ended_at=span.started_at) for span in stored.values()]


def _account_from(facts: KnownFacts, record: InstanceRecord, runs: Sequence[Run]) -> datetime:
    """Returns the moment since which a new VM's storage is accounted for: its creation where that was watched, else the
    first known moment.

    A VM that is older than the guard would otherwise arrive with years of disk, and no machine with it.
    """
    if record.created_at >= facts.watched_since or any(op.kind == "insert" for op in facts.operations):
        return record.created_at
    return runs[0].started_at if runs else facts.read_at
