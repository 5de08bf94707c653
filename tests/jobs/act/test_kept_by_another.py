"""A managed group whose template was made from a job's VM gives its own VMs the job's labels: they are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.jobs.world import World, world

from costguard.jobs.act.attempts.vm_step import is_of
from costguard.model.job import CheckpointPlan
from costguard.model.observation import Sighting

GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}


def forget(w: World) -> None:
    """The ledger is done with the job, and its VM goes on."""
    with w.database.write() as connection:
        over = "UPDATE attempts SET state = 'over', outcome = 'lost', ended_at = made_at, gone_at = made_at"
        connection.execute(text(over))
        connection.execute(text("UPDATE jobs SET state = 'cancelled'"))


def test_a_groups_vm_with_our_labels_is_no_orphan(sqlite_url: str) -> None:
    """`test_the_orphan_of_a_finished_attempt_is_deleted` has the same VM without a group."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        forget(w)
        w.vm().origin = dict(GROUP)
        w.look()
        before = w.cloud.calls["look"]
        w.settle(30)
        assert len(w.cloud.running()) == 1
        assert w.events("OrphanDeleted") == []
        assert w.cloud.calls["look"] == before, "nothing is even tried"


def test_an_attempt_never_deletes_a_vm_that_a_group_keeps(sqlite_url: str) -> None:
    """The call is refused even under the id that the VM had, and the reason stands with the attempt."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.vm().origin = dict(GROUP)
        w.exit()
        w.settle(10)
        assert len(w.cloud.running()) == 1
        assert w.cloud.calls["delete"] == 0
        (attempt,) = w.attempts()
        assert "belongs to managed instance group trainers" in attempt.error


def test_a_groups_vm_with_our_labels_is_not_the_attempts(sqlite_url: str) -> None:
    """Before an attempt knows its VM's id, the labels tell, and a group's VM has the same ones."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        vm, (attempt,) = w.vm(), w.attempts()
        unknown = replace(attempt, gce_id="")
        maker = w.maker()
        seen = Sighting(vm.gce_id, vm.status, vm.started_at, dict(vm.labels))
        assert is_of(seen, unknown, maker)
        assert not is_of(replace(seen, origin=GROUP), unknown, maker)


@pytest.mark.parametrize("labels", [{"batch-job-uid": "x"}, {"goog-gke-node": ""}, {"goog-dataproc-cluster-name": "c"}])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_vm_that_an_attempt_launched_is_deleted_whatever_its_labels_say(
    sqlite_url: str, labels: dict[str, str], is_forgotten: bool
) -> None:
    """A person labelled it since. Its id is the attempt's, and no service keeps what it did not make."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.vm().labels = {**w.vm().labels, **labels}
        if is_forgotten:
            forget(w)
            w.look()
            w.settle(30)
        else:
            w.exit()
            w.settle(10)
        assert w.cloud.running() == []
        assert w.cloud.calls["delete"] == 1


def test_disk_of_an_attempts_vm_is_kept_whatever_its_labels_say(sqlite_url: str) -> None:
    """It is stopped, where it would be deleted otherwise."""
    with world(sqlite_url) as w:
        w.submit(checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
        w.until_up("cg-j1-1")
        w.start()
        w.vm().labels = {**w.vm().labels, "batch-job-uid": "x"}
        w.exit(code=3)
        w.settle(10)
        assert w.cloud.running() == []
        assert w.cloud.calls["stop"] > 0
