"""The simulated cloud's meter as Cloud Billing exports it: late, in pieces, in any currency, with credits and errors.

Written from Google's schema of the detailed export and from recorded rows (`tests/bill/recorded_rows.json`); nothing
here comes from the product.
"""

from costguard_sandbox.gce.billing.export import BillingExport, ExportOptions, billing_export
from costguard_sandbox.gce.billing.planted import BillError, Planted

__all__ = ["BillError", "BillingExport", "ExportOptions", "Planted", "billing_export"]
