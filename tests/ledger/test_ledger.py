"""The ledger holds a VM after a look at it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.builders import A100, KEY, T4, at, event, operation, seen

from costguard.ledger.billed.storage import MEMORY
from costguard.ledger.observe import Belonging, Entry, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import AttachedDisk, InstanceKey, SeenInstance, Shape, Status
from costguard.model.lifetime import StorageSpan
from costguard.model.observation import SeenOperation
from costguard.model.record import KnownInstance

BELONGING = Belonging((), OwnerRules(domain="example.com"))
INSERT = operation("insert", "09:59", "10:00")


def _account(
    listed: SeenInstance | None,
    *operations: SeenOperation,
    stored: KnownInstance | None = None,
    read: str = "12:00",
    since: str = "08:00",
    **given: Any,
) -> Entry | None:
    return account(KEY, KnownFacts(stored, listed, operations, at(read), at(since), **given), BELONGING)


def _after(entry: Entry | None, stored: KnownInstance | None = None) -> KnownInstance:
    """Returns the store after this entry."""
    assert entry is not None
    lifetimes = {life.started_at: life for life in stored.lifetimes} if stored else {}
    storage = {(span.name, span.started_at): span for span in stored.storage} if stored else {}
    lifetimes |= {life.started_at: life for life in entry.lifetimes}
    storage |= {(span.name, span.started_at): span for span in entry.storage}
    return KnownInstance(1, entry.record, tuple(lifetimes.values()), tuple(storage.values()))


def _spans(entry: Entry | None) -> list[tuple[str, str | None, str, str | None]]:
    assert entry is not None
    return [
        (span.name, span.resource, f"{span.started_at:%H:%M}", f"{span.ended_at:%H:%M}" if span.ended_at else None)
        for span in entry.storage
    ]


def test_a_repeated_look_changes_nothing() -> None:
    """Recording is idempotent: the same evidence again stores no lifetime, no span and no event."""
    first = _account(seen(), INSERT)
    again = _account(seen(), INSERT, stored=_after(first))
    assert again is not None
    assert (again.lifetimes, again.storage, again.events) == ((), (), ())
    assert first is not None
    assert again.record == first.record


def test_disks_are_billed_from_their_creation_when_it_was_watched() -> None:
    """The disk of a new VM bills from before the VM runs."""
    assert _spans(_account(seen(), INSERT)) == [("vm", "disk:pd-balanced", "09:59", None)]


def test_the_storage_of_a_vm_older_than_the_guard_counts_from_its_first_known_run() -> None:
    """Years of disk without the machine next to it would be no account of anything."""
    assert _spans(_account(seen(created_at="2023-01-01T00:00"))) == [("vm", "disk:pd-balanced", "10:00", None)]


def test_disks_go_on_billing_while_a_vm_is_stopped() -> None:
    """A stop ends the lifetime and leaves the storage span open."""
    stored = _after(_account(seen(), INSERT))
    stop = operation("stop", "11:00", "11:01")
    entry = _account(seen(Status.STOPPED, last_stopped_at="11:01"), INSERT, stop, stored=stored)
    assert entry is not None
    assert [life.ended_at for life in entry.lifetimes] == [at("11:00")]
    assert entry.storage == ()


def test_a_deleted_vm_ends_its_storage_when_the_delete_ends() -> None:
    """The lifetime ends as the delete begins, its disks as it is done."""
    stored = _after(_account(seen(), INSERT))
    entry = _account(None, INSERT, operation("delete", "11:00", "11:02"), stored=stored)
    assert entry is not None
    assert entry.record.gone_at == at("11:02")
    assert [life.ended_at for life in entry.lifetimes] == [at("11:00")]
    assert _spans(entry) == [("vm", "disk:pd-balanced", "09:59", "11:02")]


def test_a_preempted_and_deleted_vm_ends_its_storage_once_it_is_off() -> None:
    """A Spot VM that Google deletes has no delete operation of its own: its guest has 30 s to shut down."""
    stored = _after(_account(seen(), INSERT))
    entry = _account(None, INSERT, event("preempted", "11:00"), stored=stored, absent=True)
    assert entry is not None
    assert entry.record.gone_at == at("11:00:30")
    assert [life.ended_at for life in entry.lifetimes] == [at("11:00")]
    assert _spans(entry) == [("vm", "disk:pd-balanced", "09:59", "11:00")]  # to the minute


def test_a_resized_disk_is_two_spans() -> None:
    """Each size bills for its own time."""
    stored = _after(_account(seen(), INSERT))
    larger = replace(seen().disks[0], size_gib=200)
    entry = _account(seen(disks=(larger,)), INSERT, stored=stored)
    assert _spans(entry) == [
        ("vm", "disk:pd-balanced", "09:59", "12:00"),
        ("vm", "disk:pd-balanced", "12:00", None),
    ]


def test_a_disk_that_could_not_be_read_keeps_what_is_known() -> None:
    """Unread is not changed; a type that becomes known later is filled in, and charged."""
    unread = replace(seen().disks[0], disk_type=None, created_at=None)
    stored = _after(_account(seen(), INSERT))
    assert _spans(_account(seen(disks=(unread,)), INSERT, stored=stored)) == []
    unknown = _after(_account(seen(disks=(unread,)), INSERT))
    assert _spans(_account(seen(), INSERT, stored=unknown)) == [("vm", "disk:pd-balanced", "09:59", None)]


def test_disks_attached_and_detached_later() -> None:
    """Their operations tell when."""
    stored = _after(_account(seen(), INSERT))
    data = AttachedDisk("data", 500, "pd-ssd", at("08:00"))
    attach = operation("attachDisk", "10:30", "10:31")
    entry = _account(seen(disks=(*seen().disks, data)), INSERT, attach, stored=stored, read="10:32")
    assert _spans(entry) == [("data", "disk:pd-ssd", "10:31", None)]
    detach = operation("detachDisk", "11:00", "11:01")
    after = _account(seen(), INSERT, attach, detach, stored=_after(entry, stored))
    assert _spans(after) == [("data", "disk:pd-ssd", "10:31", "11:00")]


def test_a_suspended_vm_pays_for_its_memory_until_it_is_resumed() -> None:
    """The memory is billed from the suspension to the next run, in MiB."""
    stored = _after(_account(seen(shape=T4), INSERT))
    suspend = operation("suspend", "10:30", "10:31")
    entry = _account(seen(Status.SUSPENDED, shape=T4, last_suspended_at="10:31"), INSERT, suspend, stored=stored)
    memory = StorageSpan(KEY, MEMORY, "suspended-memory", 15360, "us-central1-a", at("10:30"))
    assert entry is not None
    assert entry.storage == (memory,)
    resume = operation("resume", "10:59", "11:00")
    back = _account(
        seen(started="11:00", shape=T4, last_suspended_at="10:31"),
        INSERT,
        suspend,
        resume,
        stored=_after(entry, stored),
    )
    assert back is not None
    assert back.storage == (replace(memory, ended_at=at("11:00")),)


def test_a_vm_that_came_and_went_unseen_is_recorded_without_a_shape() -> None:
    """It billed, so it is in the ledger; what it was made of, nothing tells, so it has no price."""
    entry = _account(None, INSERT, operation("delete", "11:00", "11:02"))
    assert entry is not None
    assert [(life.started_at, life.ended_at) for life in entry.lifetimes] == [(at("10:00"), at("11:00"))]
    assert not entry.lifetimes[0].shape.is_known
    assert entry.record.name == "vm"


def test_what_was_gone_before_anybody_watched_is_not_recorded() -> None:
    """The first look reads two weeks of operations; VMs that were deleted by then are not the guard's."""
    assert _account(None, INSERT, operation("delete", "11:00", "11:02"), since="11:30") is None


def test_a_failed_creation_is_no_vm() -> None:
    """The operation has a target id, and there was never a VM of that id."""
    assert _account(None, operation("insert", "09:59", "10:00", error_code="QUOTA_EXCEEDED")) is None


def test_the_creator_owns_a_vm_without_a_label() -> None:
    """The insert operation alone tells who made a VM, and is remembered after Google forgot it."""
    entry = _account(seen(), INSERT)
    assert entry is not None
    assert (entry.record.attribution.owner, entry.record.owner_source) == ("ana@example.com", "creator")
    later = _account(seen(fingerprint="g"), stored=_after(entry))
    assert later is not None
    assert later.record.attribution.owner == "ana@example.com"


def test_a_changed_label_moves_a_vm_to_its_new_owner() -> None:
    """The change is an event that names both."""
    stored = _after(_account(seen(labels={"owner": "ana"}), INSERT))
    entry = _account(seen(labels={"owner": "ben"}, fingerprint="g"), INSERT, stored=stored)
    assert entry is not None
    assert entry.record.attribution.owner == "ben@example.com"
    assert [event.kind for event in entry.events] == ["InstanceReassigned"]


def test_a_reused_name_is_another_vm() -> None:
    """Operations belong to the numeric id that they targeted."""
    other = InstanceKey(KEY.project, "2000")
    entry = account(other, KnownFacts(None, seen(key=other), [], at("12:00"), at("08:00")), BELONGING)
    assert entry is not None
    assert entry.record.key == other


def test_a_run_before_a_new_machine_type_was_of_the_old_one() -> None:
    """Stopped, remade and started while nobody looked: each run is priced as what it was."""
    stored = _after(_account(seen(shape=T4), INSERT))
    operations = [
        operation("stop", "10:30", "10:31"),
        operation("start", "10:39", "10:40"),
        operation("stop", "10:50", "10:51"),
        operation("setMachineType", "10:55", "10:56"),
        operation("start", "10:59", "11:00"),
    ]
    entry = _account(seen(started="11:00", shape=A100), INSERT, *operations, stored=stored)
    assert entry is not None
    assert [(f"{life.started_at:%H:%M}", life.shape) for life in entry.lifetimes] == [
        ("10:00", T4),
        ("10:40", T4),
        ("11:00", A100),
    ]


def test_a_machine_type_found_out_later_prices_what_ran_before() -> None:
    """A lifetime without a known shape takes the one that is looked up later."""
    unknown = Shape("z9-new-1", 0, 0)
    stored = _after(_account(seen(shape=unknown), INSERT))
    entry = _account(seen(shape=replace(A100, machine_type="z9-new-1"), fingerprint="g"), INSERT, stored=stored)
    assert entry is not None
    assert [life.shape.vcpus for life in entry.lifetimes] == [12]


def test_a_vm_taken_for_gone_comes_back() -> None:
    """Listed again, it is there, and its run goes on where it was."""
    stored = _after(_account(None, stored=_after(_account(seen(), INSERT)), absent=True, read="11:00"))
    entry = _account(seen(), INSERT, stored=stored)
    assert entry is not None
    assert entry.record.gone_at is None
    assert [life.ended_at for life in entry.lifetimes] == [None]


def test_events_tell_the_story_in_order() -> None:
    """Each is a sentence that a person can read without knowing the tables."""
    stored = _after(_account(seen(), INSERT))
    entry = _account(
        seen(Status.STOPPED, last_stopped_at="11:01"), INSERT, operation("stop", "11:00", "11:01"), stored=stored
    )
    assert entry is not None
    assert [event.text for event in entry.events] == ["vm was stopped by ana@example.com after 1 h."]
    assert entry.events[0].actor == "ana@example.com"
