"""Computes Google's bill from the VMs' own states, Google's pricing pages and recorded bills.

Nothing here comes from the product: `tests/sandbox/gce/test_meter_independence.py` compares the two trees. Each rule
names its source; recorded rows are those of `tests/sandbox/gce/data/bill_rows.json`. Costs are the column `cost` of the
export: before the month's credits, such as sustained use and commitments.
"""

from costguard_sandbox.gce.meter.bill import (
    Bill,
    DiskBill,
    NodeBill,
    ResourceBill,
    Row,
    bill,
    bills,
    disk_bills,
    node_bills,
    rows,
)

__all__ = [
    "Bill",
    "DiskBill",
    "NodeBill",
    "ResourceBill",
    "Row",
    "bill",
    "bills",
    "disk_bills",
    "node_bills",
    "rows",
]
