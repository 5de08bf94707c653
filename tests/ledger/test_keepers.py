"""The ledger records who keeps each VM: filters and spend take it, and spend by it adds up to spend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, delete
from tests.api import rows
from tests.api.rows import NOW
from tests.builders import seen
from tests.reminders.last_check_setup import judged_at

from costguard.db.tables import instances
from costguard.db.transaction import Database
from costguard.keepers.reading import VmFacts, read_keeper
from costguard.ledger import fleet_rows
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged import charging
from costguard.ledger.fleet_rows import Filters, Sort
from costguard.ledger.labels.label_history import with_keeper
from costguard.model.budget import LabelFilter, Scope
from costguard.model.instance import InstanceKey
from costguard.model.keeper import CLUSTER_LABEL, KEEPER_LABEL, KIND_LABEL, POOL_LABEL, Keeper, KeeperKind
from costguard.spend.fleet import values_of_label
from costguard.spend.label_spend import spend_by_label
from costguard.spend.spend import spend

_GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-82e0c046-grp"}
_HOUR = timedelta(hours=1)


def node(pool: str = "t4", cluster: str = "train") -> dict[str, str]:
    return {"goog-gke-node": "", "goog-k8s-cluster-name": cluster, "goog-k8s-node-pool-name": pool}


def test_a_look_records_the_keeper_with_its_evidence(sqlite_database: Database) -> None:
    """It is read back whole, and the fleet is filtered by it, by its cluster and by its pool."""
    judged = judged_at(sqlite_database)
    project = judged.decided().key.project
    judged.scene.look(
        seen(key=InstanceKey(project, "1009"), name="node-1", labels=node(), origin=_GROUP),
        seen(key=InstanceKey(project, "1010"), name="mine-1", labels={"team": "vision"}),
        read="12:01",
    )
    with judged.scene.database.read() as connection:

        def named(**wanted: Any) -> set[str]:
            ids = [place[2] for place in fleet_rows.ranked(connection, Filters(**wanted), Sort.NAME, None, 100)]
            return {vm.name for vm in fleet_rows.known(connection, ids)}

        row = fleet_rows.instance_id(connection, InstanceKey(project, "1009"))
        assert row is not None
        (stored,) = fleet_rows.known(connection, [row])
        assert stored.kept == read_keeper(VmFacts(node(), _GROUP, stored.zone))
        assert set(stored.kept.evidence) >= {"goog-gke-node", "created-by"}
        assert named(keepers=("gke",)) == named(cluster="train") == named(cluster="train/t4") == {"node-1"}
        assert named(cluster="train/v100") == named(cluster="other") == set()
        assert "mine-1" in named(keepers=("nobody",))


@pytest.mark.parametrize(
    "keeper",
    [
        Keeper(KeeperKind.NOBODY),
        Keeper(KeeperKind.GKE, "train", "us-east1", "train", "t4", "a/b", "", ("x", "y"), "Perhaps."),
        Keeper(KeeperKind.TOOL, "sky-a", cluster="sky-a", product="SkyPilot cluster", evidence=("z",)),
    ],
)
def test_a_stored_keeper_is_read_back_whole(keeper: Keeper) -> None:
    """Nothing stored is a keeper that was not read yet."""
    assert Keeper.of_stored(keeper.stored()) == keeper
    assert Keeper.of_stored({}) is None


def test_a_users_label_of_the_ledgers_name_counts_for_nothing() -> None:
    """A person cannot put spend under a cluster by a label."""
    stored = Keeper(KeeperKind.NOBODY).stored()
    assert with_keeper({"a": "b", CLUSTER_LABEL: "train"}, stored) == {"a": "b", KEEPER_LABEL: "nobody"}


def test_what_vertex_ai_runs_has_its_kind_as_a_label() -> None:
    """Spend can be grouped by it, apart from the VMs' of other keepers."""
    stored = Keeper(KeeperKind.VERTEX, "45", "us-central1", product="custom job").stored()
    assert with_keeper({}, stored) == {KEEPER_LABEL: "vertex", KIND_LABEL: "custom job"}


def _kept(connection: Connection, number: int, labels: dict[str, str]) -> None:
    keeper = read_keeper(VmFacts(labels)).stored()
    vm = rows.instance(connection, f"vm-{number}", gce_id=str(number), labels=labels, keeper=keeper)
    ends = None if number % 2 else NOW - number * _HOUR
    rows.lifetime(
        connection, vm, NOW - (30 + number) * _HOUR - timedelta(seconds=number), ended_at=ends, charged_to=None
    )
    rows.storage(connection, vm, NOW - (30 + number) * _HOUR, ended_at=ends, charged_to=None)


@pytest.mark.parametrize("label", [KEEPER_LABEL, CLUSTER_LABEL, POOL_LABEL, KIND_LABEL])
def test_spend_by_keeper_cluster_pool_and_kind_adds_up_to_spend(database: Database, label: str) -> None:
    """Charged days do to the nano-dollar; what accrues today may differ by the rounding of rates, by one for a VM."""
    first, today = (NOW - timedelta(days=4)).date(), NOW.date()
    fleet = [node(), node(), node("v100"), node("t4", "eval"), {"skypilot-cluster-name": "sky-a"}, {"team": "a"}, {}]
    with database.write() as connection:
        rows.prices(connection)
        for number, labels in enumerate(fleet, 1):
            _kept(connection, number, labels)
    charging.charge_due(database, NOW)
    with database.read() as connection:
        accrual = accrual_at(connection, NOW)
        for last, rounding in ((today - timedelta(days=1), 0), (today, len(fleet))):
            parts, whole = spend_by_label(connection, accrual, first, last, label, Scope())
            total = sum(part.amounts.total.nanos for part in parts)
            assert total > 0
            assert abs(total - whole.total.total.nanos) <= rounding
            for part in parts:
                scope = Scope(label=LabelFilter(label, part.value))
                alone = spend(connection, accrual, first, last, [], scope).total.total.nanos
                assert abs(alone - part.amounts.total.nanos) <= rounding
            values = {part.value for part in parts}
    expected: dict[str, set[str | None]] = {
        KEEPER_LABEL: {"gke", "tool", "nobody"},
        CLUSTER_LABEL: {"train", "eval", "sky-a", None},
        POOL_LABEL: {"train/t4", "train/v100", "eval/t4", None},
        KIND_LABEL: {"SkyPilot cluster", None},
    }
    assert values == expected[label]


def test_kinds_are_listed_while_a_vm_had_them_in_the_period(database: Database) -> None:
    """Each once, in order, and last VMs without; not what went before the period began."""
    kept = (("custom job", None), ("custom job", -1), ("deployed model", 1), ("deployment pool", -1), (None, None))
    with database.write() as connection:
        for number, (product, gone) in enumerate(kept):
            keeper = Keeper(KeeperKind.VERTEX, product=product) if product else Keeper(KeeperKind.NOBODY)
            gone_at = NOW + gone * _HOUR if gone else None
            rows.instance(connection, f"vm-{number}", keeper=keeper.stored(), gone_at=gone_at)
    with database.read() as connection:
        assert [one.value for one in values_of_label(connection, KIND_LABEL, NOW)] == [
            "custom job",
            "deployed model",
            None,
        ]
        assert [one.value for one in values_of_label(connection, KEEPER_LABEL, NOW)] == ["nobody", "vertex", None]
    with database.write() as connection:
        connection.execute(delete(instances))
    with database.read() as connection:
        assert [one.value for one in values_of_label(connection, KIND_LABEL, NOW)] == [None]
