"""Rows of a detailed export as BigQuery prints them, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from costguard.bill.export_row import read_row
from costguard.bill.export_sums import ExportSums

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
EXPORTED = datetime(2026, 11, 10, 18, tzinfo=UTC)


def row(
    vm: int = 1,
    hour: datetime = NOON,
    exported: datetime = EXPORTED,
    seconds: str = "3600",
    cost: str = "0.021811",
    **fields: Any,
) -> dict[str, Any]:
    """A VM's cores of one hour, as V-disk is laid out."""
    return {
        "billing_account_id": "000000-000000-000001",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": "CF4E-A0C7-E3BF", "description": "E2 Instance Core running in Americas"},
        "usage_start_time": f"{hour:%Y-%m-%d %H:%M:%S} UTC",
        "usage_end_time": f"{hour + HOUR:%Y-%m-%d %H:%M:%S} UTC",
        "project": {"id": "acme", "number": "700"},
        "location": {"location": "us-central1", "zone": "us-central1-a"},
        "resource": {
            "name": f"projects/700/instances/vm-{vm}",
            "global_name": f"//compute.googleapis.com/projects/700/zones/us-central1-a/instances/{vm}",
        },
        "usage": {"amount": seconds, "unit": "seconds"},
        "currency": "USD",
        "currency_conversion_rate": "1.0",
        "cost": cost,
        "cost_at_list": cost,
        "credits": [],
        "invoice": {"month": "202611"},
        "cost_type": "regular",
        "export_time": f"{exported:%Y-%m-%d %H:%M:%S} UTC",
        **fields,
    }


def summed(*rows: dict[str, Any], most_sums: int = 1000) -> ExportSums:
    sums = ExportSums(most_sums)
    sums.add(map(read_row, rows))
    return sums
