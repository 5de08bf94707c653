"""Disks and saved memory: nothing that is kept goes unbilled, and nothing is billed twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tests.builders import A100, KEY, at, event, operation, seen

from costguard.ledger.billed.storage import MEMORY
from costguard.ledger.observe import Belonging, Entry, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime, StorageSpan
from costguard.model.observation import SeenOperation
from costguard.model.record import KnownInstance

BELONGING = Belonging((), OwnerRules())
WATCHED = at("09:00")
SPOT = ProvisioningModel.SPOT


class _Books:
    """The ledger of one VM, look after look."""

    def __init__(self) -> None:
        self.stored: KnownInstance | None = None
        self.operations: list[SeenOperation] = []

    def look(
        self,
        read: str,
        listed: SeenInstance | None = None,
        *news: SeenOperation,
        absent: bool = False,
        watched: datetime = WATCHED,
    ) -> Entry:
        self.operations += news
        entry = account(KEY, KnownFacts(self.stored, listed, self.operations, at(read), watched, absent), BELONGING)
        assert entry is not None
        lives = {life.started_at: life for life in (self.stored.lifetimes if self.stored else ())}
        spans = {(span.name, span.started_at): span for span in (self.stored.storage if self.stored else ())}
        lives |= {life.started_at: replace(life, id=1) for life in entry.lifetimes}
        spans |= {(span.name, span.started_at): replace(span, id=1) for span in entry.storage}
        self.stored = KnownInstance(1, entry.record, tuple(lives.values()), tuple(spans.values()))
        return entry

    @property
    def storage(self) -> list[tuple[str, str, str | None]]:
        spans: tuple[StorageSpan, ...] = self.stored.storage if self.stored else ()
        return sorted(
            (span.name, f"{span.started_at:%H:%M:%S}", f"{span.ended_at:%H:%M:%S}" if span.ended_at else None)
            for span in spans
            if span.ended_at != span.started_at
        )

    @property
    def memory(self) -> list[StorageSpan]:
        return [span for span in (self.stored.storage if self.stored else ()) if span.name == MEMORY]

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        return self.stored.lifetimes if self.stored else ()


def test_the_disk_of_a_vm_that_never_came_up_bills_from_its_creation() -> None:
    """Preempted while it was created: the insert failed, the VM is there, and so is its disk."""
    books = _Books()
    failed = operation("insert", "09:59", "10:00", error_code="UNSUPPORTED_OPERATION")
    books.look("11:00", seen(Status.STOPPED, started=None), failed, event("preempted", "09:59:30"))
    assert books.storage == [("vm", "09:59:00", None)]


def test_id_of_a_disk_is_added_to_what_bills_and_names_another_disk() -> None:
    """A span without an id takes the one that is read and goes on; another id under the name ends it there."""
    disk = seen().disks[0]
    books = _Books()
    books.look("10:30", seen(disks=(disk,)))
    for read, gce_id in (("11:00", "77"), ("11:30", None), ("12:00", "77")):
        books.look(read, seen(disks=(replace(disk, gce_id=gce_id),)))
        assert books.storage == [("vm", "09:59:00", None)]
    books.look("13:00", seen(disks=(replace(disk, gce_id="78"),)))
    assert books.storage == [("vm", "09:59:00", "13:00:00"), ("vm", "13:00:00", None)]
    assert books.stored is not None
    assert [span.disk_id for span in books.stored.storage] == ["77", "78"]


def test_the_disk_of_a_vm_that_was_made_while_watched_bills_from_its_creation() -> None:
    """The disk bills so also when its operations could not be read, or were forgotten."""
    books = _Books()
    books.look("11:00", seen(Status.STOPPED, started=None))
    assert books.storage == [("vm", "09:59:00", None)]


def test_a_vm_known_by_its_operations_is_completed_when_it_is_first_listed() -> None:
    """The zone could not be read: its run gets shape and provisioning model, and its disk its whole time."""
    books = _Books()
    books.look("10:05", None, operation("insert", "09:59", "10:00"))
    books.look("10:10", seen(provisioning_model=SPOT))
    assert [(life.shape, life.provisioning_model) for life in books.lifetimes] == [(A100, SPOT)]
    assert books.storage == [("vm", "09:59:00", None)]


def test_a_suspension_that_is_told_late_bills_its_memory_once() -> None:
    """The listing dates it by its end, the operation by its start: the one replaces the other."""
    books = _Books()
    books.look("10:05", seen())
    books.look("11:05", seen(Status.SUSPENDED, last_suspended_at="11:01"))
    books.look("11:10", seen(Status.SUSPENDED, last_suspended_at="11:01"), operation("suspend", "11:00", "11:01"))
    assert books.storage == [(MEMORY, "11:00:00", None), ("vm", "09:59:00", None)]


def test_saved_memory_ends_with_a_stop_that_no_operation_tells() -> None:
    """A VM that is listed as stopped holds no memory, whatever became of the operation."""
    books = _Books()
    books.look("10:05", seen(), operation("suspend", "11:00", "11:01"))
    books.look("11:10", seen(Status.SUSPENDED, last_suspended_at="11:01"))
    books.look("12:00", seen(Status.STOPPED, last_suspended_at="11:01", last_stopped_at="11:30"))
    assert books.storage[0] == (MEMORY, "11:00:00", "11:30:00")


def test_a_preemption_told_late_ends_the_disk_of_a_vm_that_went_with_it() -> None:
    """It was found absent first, and why was read later: it was off 30 s after its preemption at the latest."""
    books = _Books()
    books.look("10:05", seen(provisioning_model=SPOT))
    books.look("11:00", None, absent=True)
    assert books.storage == [("vm", "09:59:00", "11:00:00")]
    books.look("11:05", None, event("preempted", "10:30"))
    assert books.storage == [("vm", "09:59:00", "10:30:30")]


def test_disk_of_a_preempted_vm_bills_until_the_look_that_misses_it() -> None:
    """Google deletes it once it is off, within 30 s, and no operation tells when; later looks change nothing."""
    books = _Books()
    books.look("10:05", seen(provisioning_model=SPOT))
    stopping = seen(Status.STOPPING, provisioning_model=SPOT)
    books.look("10:30:08", stopping, event("preempted", "10:30"))
    assert books.storage == [("vm", "09:59:00", None)]
    books.look("10:30:18", None, absent=True)
    assert books.storage == [("vm", "09:59:00", "10:30:18")]
    assert [life.ended_at for life in books.lifetimes] == [at("10:30")]
    books.look("10:40", None, event("preempted", "10:30"))
    assert books.storage == [("vm", "09:59:00", "10:30:18")]


def test_vm_whose_time_is_over_holds_its_disk_until_it_is_missed() -> None:
    """Google deletes it by an operation of one moment. Told late, or by the feed alone, it bounds the end, too."""
    books, after_the_look, by_the_feed = _Books(), _Books(), _Books()
    over = event("deferredDelete", "10:30")
    for one in (books, after_the_look, by_the_feed):
        one.look("10:05", seen(provisioning_model=SPOT))
    books.look("10:30:08", seen(Status.STOPPING, provisioning_model=SPOT), over)
    assert books.storage == [("vm", "09:59:00", None)]
    books.look("10:30:18", None, absent=True)
    assert books.storage == [("vm", "09:59:00", "10:30:18")]
    after_the_look.look("11:00", None, absent=True)
    after_the_look.look("11:05", None, over)
    assert after_the_look.storage == [("vm", "09:59:00", "10:30:30")]
    by_the_feed.look("10:30:01", None, over)
    assert by_the_feed.storage == [("vm", "09:59:00", "10:30:00")]
    for one in (books, after_the_look, by_the_feed):
        assert [life.ended_at for life in one.lifetimes] == [at("10:30")]


def test_a_deletion_told_late_moves_the_end_of_the_disks_either_way() -> None:
    """A VM that was preempted, kept and then deleted is billed for its disk until its deletion."""
    books = _Books()
    books.look("10:05", seen(provisioning_model=SPOT))
    books.look("11:00", None, event("preempted", "10:30"), absent=True)
    books.look("11:05", None, operation("delete", "10:50", "10:51"))
    assert books.storage == [("vm", "09:59:00", "10:51:00")]


def test_a_preempted_vm_that_was_seen_stopped_bills_its_disk_until_it_is_missed() -> None:
    """It outlived its preemption, so that cannot be when it went."""
    books = _Books()
    books.look("10:05", seen(provisioning_model=SPOT))
    stopped = seen(Status.STOPPED, provisioning_model=SPOT, last_stopped_at="10:30:20")
    books.look("10:40", stopped, event("preempted", "10:30"))
    books.look("11:00", None, absent=True)
    assert books.storage == [("vm", "09:59:00", "11:00:00")]


def test_a_vm_that_was_taken_for_gone_goes_on() -> None:
    """A 404 that was wrong leaves no gap, in its run or on its disk."""
    books = _Books()
    books.look("10:05", seen())
    books.look("11:00", None, absent=True)
    books.look("11:05", seen())
    assert books.storage == [("vm", "09:59:00", None)]
    assert [life.ended_at for life in books.lifetimes] == [None]
    assert not books.look("11:10", seen()).storage


def test_a_type_told_for_a_remade_vm_is_not_that_of_its_earlier_run() -> None:
    """An unknown shape is not made up from the VM's present one."""
    books = _Books()
    unknown = replace(A100, machine_type="x9-new", vcpus=0, memory_mib=0)
    books.look("10:05", seen(shape=unknown))
    books.look("11:00", seen(Status.STOPPED, last_stopped_at="10:31"), operation("stop", "10:30", "10:31"))
    assert [life.shape for life in books.lifetimes] == [unknown]
    assert books.lifetimes[0].end_reason is EndReason.STOPPED


def test_a_vm_that_is_preempted_as_it_comes_up_goes_with_it() -> None:
    """The last run ended long before, and only the preemption tells when the VM went."""
    books = _Books()
    books.look("10:05", seen(provisioning_model=SPOT))
    stopped = seen(Status.STOPPED, provisioning_model=SPOT, last_stopped_at="10:31")
    books.look("10:40", stopped, operation("stop", "10:30", "10:31"))
    start = operation("start", "11:00", "11:00:20", error_code="UNSUPPORTED_OPERATION")
    books.look("11:30", None, start, event("preempted", "11:00:10"), absent=True)
    assert books.storage == [("vm", "09:59:00", "11:00:40")]


def test_the_memory_of_a_suspended_vm_of_an_unknown_type_is_unpriced_until_it_is_known() -> None:
    """Never memory of no size, which would cost nothing and say nothing."""
    books = _Books()
    unknown = replace(A100, vcpus=0, memory_mib=0)
    suspended = seen(Status.SUSPENDED, last_suspended_at="11:01", shape=unknown)
    books.look("11:10", suspended, operation("insert", "09:59", "10:00"), operation("suspend", "11:00", "11:01"))
    assert [(span.resource, span.size_mib) for span in books.memory] == [(None, 0)]
    books.look("11:20", replace(suspended, shape=A100))
    assert [(span.resource, span.size_mib) for span in books.memory] == [("suspended-memory", A100.memory_mib)]
