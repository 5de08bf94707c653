"""What Google would bill, worked out from the world's own states, Google's pricing pages and recorded bills.

Nothing here comes from the guard: `tests/sandbox/test_meter_independence.py` compares the two trees. Each rule
names its source; recorded rows are those of `tests/sandbox/data/bill_rows.json`.
"""

from costguard_sandbox.meter.bill import Bill, ResourceBill, bill, bills
from costguard_sandbox.meter.rows import Row, rows

__all__ = ["Bill", "ResourceBill", "Row", "bill", "bills", "rows"]
