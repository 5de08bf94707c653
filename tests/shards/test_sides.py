"""A VM whose bill and ledger differ is shown with both, by however little it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.shards.sides import Part, Side, differing, of_meter

_METERED: Mapping[str, Any] = {
    "id": "7",
    "name": "vm-1",
    "project": "one",
    "resources": {
        "n1:core": {
            "seconds": 61,
            "nanos": 2_000,
            "times": [["2026-11-29T00:00:01.500-08:00", "2026-11-29T00:01:02.100-08:00"]],
        },
        "disk:pd-balanced": {"seconds": 90, "nanos": 30, "times": []},
    },
}
_DELETE: Mapping[str, Any] = {
    "operationType": "delete",
    "targetId": "7",
    "user": "ana@example.com",
    "status": "RUNNING",
    "insertTime": "2026-11-29T00:01:02.000-08:00",
    "startTime": "2026-11-29T00:01:02.100-08:00",
}
_INSERT: Mapping[str, Any] = {
    **_DELETE,
    "operationType": "insert",
    "status": "DONE",
    "insertTime": "2026-11-28T23:59:50.000-08:00",
    "endTime": "2026-11-29T00:00:01.500-08:00",
    "error": {},
}
_REPAIR: Mapping[str, Any] = {key: value for key, value in _INSERT.items() if key not in ("user", "error")} | {
    "operationType": "repair",
    "insertTime": "2026-11-29T00:02:00.000-08:00",
}  # has no user
_BILL = of_meter(_METERED, [_REPAIR, _DELETE, _INSERT, {**_DELETE, "targetId": "8"}])


def _ledger(*nanos: int) -> Side:
    return Side("vm-1", tuple(Part("core", 60, one, "08:00:01.500 to 08:01:01.900") for one in nanos), ("stopped",))


def test_meter_and_operations_of_a_vm_are_read() -> None:
    """Operations come in the order in which they were asked for, with what they lack as unknown."""
    assert _BILL.nanos == 2_030
    assert _BILL.parts[0] == Part("n1:core", 61, 2_000, "08:00:01.500 to 08:01:02.100")
    assert _BILL.notes == (
        "insert asked for at 07:59:50.000 by ana@example.com, 08:01:02.100 to 08:00:01.500, DONE, failed",
        "delete asked for at 08:01:02.000 by ana@example.com, 08:01:02.100 to ?, RUNNING",
        "repair asked for at 08:02:00.000 by Google, 08:01:02.100 to 08:00:01.500, DONE",
    )


def test_vm_whose_sums_differ_is_shown_with_both_sides() -> None:
    """Seconds, money and times of each resource, and what they rest on."""
    assert list(differing({"7": _BILL}, {"7": _ledger(2_000)})) == [
        "VM 7, vm-1 in one: the ledger has -30 nano-dollars\n"
        "      bill: n1:core 61 s, 2,000, 08:00:01.500 to 08:01:02.100\n"
        "      bill: disk:pd-balanced 90 s, 30, \n"
        f"      bill: {_BILL.notes[0]}\n"
        f"      bill: {_BILL.notes[1]}\n"
        f"      bill: {_BILL.notes[2]}\n"
        "      ledger: core 60 s, 2,000, 08:00:01.500 to 08:01:01.900\n"
        "      ledger: stopped"
    ]


def test_nano_dollar_for_each_part_is_no_difference() -> None:
    """Both sides round, each in its own way."""
    assert list(differing({"7": _BILL}, {"7": _ledger(2_000, 26)})) == []
    assert len(list(differing({"7": _BILL}, {"7": _ledger(2_000, 25)}))) == 1


def test_vm_that_one_side_lacks_is_shown_and_the_largest_difference_comes_first() -> None:
    """A VM that cost nothing may be missing."""
    bills, ledger = {"7": _BILL, "9": Side("free")}, {"8": _ledger(5_000)}
    assert [one.partition(":")[0] for one in differing(bills, ledger)] == ["VM 8, vm-1", "VM 7, vm-1 in one"]
