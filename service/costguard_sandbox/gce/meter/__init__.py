"""What Google would bill, worked out from the world's own states, Google's pricing pages and recorded bills.

Nothing here comes from the guard: `tests/sandbox/test_meter_independence.py` compares the two trees. Each rule names
its source; recorded rows are those of `tests/sandbox/data/bill_rows.json`. Costs are what a row of the export has as
`cost`: before the month's credits, such as sustained use and commitments.
"""

from costguard_sandbox.gce.meter.bill import Bill, DiskBill, ResourceBill, Row, bill, bills, disk_bills, rows

__all__ = ["Bill", "DiskBill", "ResourceBill", "Row", "bill", "bills", "disk_bills", "rows"]
