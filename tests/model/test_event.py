"""Keys of events: what makes the same happening the same event, in every database that ever held it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import costguard
from costguard.model.event import event_key, new_event
from costguard.model.instance import InstanceKey

NOW = datetime(2026, 11, 3, 9, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "identity", "key"),
    [
        ("InstanceSeen", ("p", "1", "first"), "InstanceSeen:p:1:first"),
        ("TokenMade", ("t1",), "TokenMade/t1"),
        ("AttemptEnded", ("p", "vm-1", "ended"), "attempt/p/vm-1/ended"),
        ("JobHeldByBudget", ("j1", "held", "team", "2026-11-01"), "job/j1/held/team/2026-11-01"),
        ("OrphanDeleted", ("p", "1"), "orphan/p/1"),
        ("OrphanKept", ("p", "1", "kept"), "orphan/p/1/kept"),
        ("PriceChanged", ("n1:core/us-east1/spot", "now", 7), "price/n1:core/us-east1/spot/now/7"),
        ("GenerationBegan", (3,), "generation/3"),
        (
            "BudgetThresholdCrossed",
            ("team", "month", "2026-11-01", "spent", 80),
            "budget/team/month/2026-11-01/spent/80",
        ),
    ],
)
def test_keys_are_those_that_ledgers_and_receivers_hold(kind: str, identity: tuple[object, ...], key: str) -> None:
    """Keys as they were stored before there was one constructor; another form would record old events again."""
    assert event_key(kind, *identity) == key


def test_an_event_of_a_vm_names_its_project_and_id() -> None:
    """The VM gives the project; without one, the project stands alone."""
    of_vm = new_event("InstanceSeen", NOW, "Seen.", "1", vm=InstanceKey("p", "1"), name="vm-1", data={"zone": "z"})
    assert (of_vm.project, of_vm.gce_id, of_vm.name, of_vm.data) == ("p", "1", "vm-1", {"zone": "z"})
    of_project = new_event("ProjectUnwatched", NOW, "Gone.", "p", project="p")
    assert (of_project.project, of_project.gce_id, of_project.data) == ("p", "", {})


def test_no_other_code_makes_events_of_its_own() -> None:
    """The exception is the audit log, which reads stored events: so that no kind gets a second form of key."""
    house = Path(costguard.__file__).parent
    makers = {
        str(file.relative_to(house))
        for file in house.rglob("*.py")
        if re.search(r"\bEvent\(", file.read_text("utf-8")) and "model.event import" in file.read_text("utf-8")
    }
    assert makers == {"events/audit_log.py"}
