"""VMs that a managed instance group repairs by making them again.

Sources: an audit log entry of 27 April 2021 in the tests of LogicMonitor's lm-logs-fluentd-gcp-filter (operation
`repair-1619505891524-5c0ee99603e9a-862341d5-24923c3c`, method `compute.instances.repair.recreateInstance`, by
system@google.com); operations of 24 August 2026 in mlorentedev/kubelab (preempted 17:13:39, recreateInstance 17:13:47,
insert 17:13:57; and stop 18:54:40, recreateInstance 18:54:46, insert 18:55:16, where name and id stayed and
creationTimestamp moved); and one recorded VM whose lastStop followed its repair by 54 s and whose lastStart by 66 s.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.builders import KEY, at, event, lifetime, operation, seen

from costguard.gce.operations import operation_from
from costguard.ledger.narrate import ended_text
from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.ledger.timeline import Run, created_by, deleted_at, runs_of
from costguard.model.instance import InstanceKey, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import SeenOperation

REPAIRED = at("11:00")
REPAIR = event("repair.recreateInstance", "11:00")


def _runs(
    *operations: SeenOperation, read: str = "12:00", lifetimes: tuple[Lifetime, ...] = (), **given: object
) -> list[Run]:
    listed = seen(**given) if given else None  # type: ignore[arg-type]
    return runs_of(lifetimes, sorted(operations, key=lambda op: op.inserted_at), listed, at(read))


def test_recreation_ends_a_lifetime_and_the_vm_runs_again_under_its_id() -> None:
    """The end is the stop stamp, 54 s after the operation; the new run begins 66 s after it."""
    stopped_at, started_at = REPAIRED + timedelta(seconds=54), REPAIRED + timedelta(seconds=66)
    first, second = _runs(
        REPAIR, lifetimes=(lifetime("10:00"),), last_stopped_at=stopped_at, last_started_at=started_at
    )
    assert (first.started_at, first.ended_at, first.reason) == (at("10:00"), stopped_at, EndReason.RECREATED)
    assert not first.end_is_estimate
    assert (second.started_at, second.ended_at) == (started_at, None)


def test_recorded_repair_ends_the_old_run_at_its_stop_stamp_whenever_it_is_looked_at() -> None:
    """Repair 17:49:14.1, lastStop 17:50:08.1, lastStart 17:50:20.5; also between them, and after another stop."""
    repair = event("repair.recreateInstance", "17:49:14.100")
    made = operation("insert", "17:50:08.300", "17:50:20.400")
    stopped_at, started_at = at("17:50:08.100"), at("17:50:20.500")
    stamps = {"last_stopped_at": stopped_at, "started": "17:50:20.500"}
    first, second = _runs(repair, made, read="18:00", lifetimes=(lifetime("10:00"),), **stamps)
    assert (first.ended_at, first.reason) == (stopped_at, EndReason.RECREATED)
    assert (second.started_at, second.ended_at) == (started_at, None)
    ended = lifetime("10:00", "17:50:08.100", EndReason.RECREATED)
    later = {"last_stopped_at": at("19:30"), "started": "19:31"}
    runs = _runs(
        repair, operation("stop", "19:29", "19:30"), operation("start", "19:30:30", "19:31"), read="20:00",
        lifetimes=(ended, lifetime("17:50:20.500", id=2)), **later,
    )  # fmt: skip
    assert [run.ended_at for run in runs] == [stopped_at, at("19:29"), None]
    (unlisted,) = _runs(repair, read="17:49:40", lifetimes=(lifetime("10:00"),))
    assert unlisted.ended_at == at("17:49:40")


@pytest.mark.parametrize("moment", ["17:49:14.100", "17:49:40"])
def test_vm_that_its_group_has_not_stopped_yet_still_bills(moment: str) -> None:
    """The repair was begun, and it is listed as running, with the stamps of before."""
    repair = event("repair.recreateInstance", "17:49:14.100")
    (run,) = _runs(repair, read=moment, lifetimes=(lifetime("10:00"),), started="10:00")
    assert run.ended_at is None


def test_repair_ends_no_run_that_began_after_it() -> None:
    """A VM that was down already is up again 10 s after the repair, as recorded on 24 August 2026."""
    operations = [event("preempted", "17:13:39"), event("repair.recreateInstance", "17:13:47")]
    operations += [operation("insert", "17:13:49", "17:13:57")]
    runs = _runs(*operations, read="19:30", lifetimes=(lifetime("10:00"),), started="17:13:57")
    assert [(run.ended_at, run.reason) for run in runs] == [(at("17:13:39"), EndReason.PREEMPTED), (None, None)]


@pytest.mark.parametrize(
    "start", [("17:49:24.700", "17:49:24.900"), ("17:49:14", "17:49:14.500")], ids=["before the stop", "around it"]
)
def test_start_that_found_the_vm_running_does_not_cut_the_run_short(start: tuple[str, str]) -> None:
    """A person starts the VM that its group is about to stop: that is done at once, and it bills for the 54 s."""
    operations = [event("repair.recreateInstance", "17:49:14.100"), operation("start", *start)]
    operations += [operation("insert", "17:50:08.100", "17:50:20.100")]
    runs = _runs(*operations, read="19:30", lifetimes=(lifetime("10:00"),), started="17:50:20.100")
    assert [(run.started_at, run.ended_at, run.reason) for run in runs] == [
        (at("10:00"), at("17:50:08.100"), EndReason.RECREATED),
        (at("17:50:20.100"), None, None),
    ]


def test_recreation_whose_insert_operation_was_read_begins_one_run() -> None:
    """The recording is of 24 August 2026: stop, repair, and an insert half a minute later."""
    operations = [
        operation("insert", "09:59", "10:00"),
        operation("stop", "18:54:40", "18:55:10"),
        event("repair.recreateInstance", "18:54:46"),
        operation("insert", "18:55:01", "18:55:16"),
    ]
    runs = _runs(*operations, read="19:30", started="18:55:16", created_at="18:55:02")
    assert [(run.started_at, run.ended_at, run.reason) for run in runs] == [
        (at("10:00"), at("18:54:40"), EndReason.STOPPED),
        (at("18:55:16"), None, None),
    ]


def test_preempted_vm_that_its_group_makes_again_was_preempted() -> None:
    """The recording is of 24 August 2026: the repair 8 s after the preemption ends nothing more."""
    operations = [
        operation("insert", "09:59", "10:00"),
        event("preempted", "17:13:39"),
        event("repair.recreateInstance", "17:13:47"),
        operation("insert", "17:13:49", "17:13:57"),
    ]
    runs = _runs(*operations, read="19:30")
    assert [(run.ended_at, run.reason) for run in runs] == [(at("17:13:39"), EndReason.PREEMPTED), (None, None)]


def test_vm_made_again_under_another_id_ends_under_its_old_one() -> None:
    """The operation names the old incarnation; the new one is another instance, with an account of its own."""
    entry = account(KEY, KnownFacts(None, seen(), [], at("10:30"), at("09:00")), Belonging((), OwnerRules()))
    assert entry is not None
    (ended,) = runs_of(entry.lifetimes, [REPAIR], None, at("12:00"), absent=True)
    assert (ended.ended_at, ended.reason, ended.end_is_estimate) == (at("11:00:54"), EndReason.RECREATED, False)
    again = seen(key=InstanceKey(KEY.project, "2000"), started="11:01:06", created_at="11:01")
    (running,) = runs_of((), [], again, at("12:00"))
    assert (running.started_at, running.ended_at) == (at("11:01:06"), None)


def test_vm_between_repair_and_start_does_not_run() -> None:
    """Stopping, or being made: no run is open, and the ended one keeps its reason."""
    for status in (Status.STOPPING, Status.STOPPED, Status.PROVISIONING, Status.STAGING):
        (run,) = _runs(REPAIR, lifetimes=(lifetime("10:00"),), status=status, read="11:00:30")
        assert (run.ended_at, run.reason) == (at("11:00:30"), EndReason.RECREATED)


def test_vm_that_was_deleted_and_made_again_under_its_id_is_there() -> None:
    """A delete that an insert of the same id follows does not make the VM gone."""
    deleted = operation("delete", "18:54:50", "18:55:00")
    made = operation("insert", "18:55:01", "18:55:16")
    assert deleted_at([deleted]) == at("18:55:00")
    assert deleted_at([deleted, made]) is None
    assert created_by([deleted, made]) == "ana@example.com"


def test_reason_has_words_of_its_own() -> None:
    """People read about the end."""
    assert ended_text(EndReason.RECREATED) == "was recreated by its managed instance group"


@pytest.mark.parametrize("user", [None, "system"])
def test_recorded_repair_operation_is_understood(user: str | None) -> None:
    """The name, target and time of the recorded audit log entry, in the shape of an operation: it has no user."""
    raw = {
        "kind": "compute#operation",
        "name": "repair-1619505891524-5c0ee99603e9a-862341d5-24923c3c",
        "operationType": "compute.instances.repair.recreateInstance",
        "targetId": "5229353360185505344",
        "targetLink": "https://www.googleapis.com/compute/v1/projects/development-198123/zones/us-central1-c"
        "/instances/aef-backend-20180822t164014-b75j",
        "status": "DONE",
        "progress": 100,
        "insertTime": "2021-04-26T23:44:51.535-07:00",
        "startTime": "2021-04-26T23:44:51.535-07:00",
        "endTime": "2021-04-26T23:44:51.535-07:00",
        "statusMessage": "Instance Group Manager 'projects/272452262635/zones/us-central1-c/instanceGroupManagers/"
        "aef-backend-20180822t164014-00' initiated recreateInstance on instance 'projects/272452262635/zones/"
        "us-central1-c/instances/aef-backend-20180822t164014-b75j'. Reason: instance's current action is VERIFYING, "
        "but health status is TIMEOUT.",
    } | ({"user": user} if user else {})
    repair = operation_from("development-198123", raw)
    assert repair is not None
    life = lifetime("2021-04-27T06:00:00")
    (run,) = runs_of([life], [repair], None, at("2021-04-27T08:00:00"))
    assert run.ended_at == datetime.fromisoformat("2021-04-27T06:45:45.535+00:00")  # no stop stamp is left of it
    assert (run.reason, run.by) == (EndReason.RECREATED, user or "")
