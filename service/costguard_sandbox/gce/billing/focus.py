"""A row of the detailed export as Google's FOCUS table has it.

Column by column from Google's published view over the detailed export ("FOCUS BigQuery view", 2024-03-19):
ConsumedQuantity is usage.amount, ContractedCost is cost, BilledCost is cost with its credits, ResourceId is
resource.global_name.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

_PACIFIC = ZoneInfo("America/Los_Angeles")
_CATEGORIES = {"regular": "usage", "tax": "tax"}


def focus_row(row: Mapping[str, Any]) -> dict[str, Any]:
    credits = [
        {
            "Name": one["name"],
            "Amount": one["amount"],
            "FullName": one["full_name"],
            "Id": one["id"],
            "Type": one["type"],
        }
        for one in row["credits"]
    ]
    billed = Decimal(row["cost"]) + sum((Decimal(one["Amount"]) for one in credits), Decimal(0))
    month = row["invoice"]["month"]
    began = datetime(int(month[:4]), int(month[4:]), 1, tzinfo=_PACIFIC).astimezone(UTC)
    project = row["project"]
    return {
        "AvailabilityZone": row["location"]["zone"],
        "BilledCost": f"{billed:f}",
        "BillingAccountId": row["billing_account_id"],
        "BillingCurrency": row["currency"],
        "BillingPeriodStart": f"{began:%Y-%m-%d %H:%M:%S} UTC",
        "ChargeCategory": _CATEGORIES.get(row["cost_type"], "adjustment"),
        "ChargeClass": None,
        "ChargeDescription": row["sku"]["description"],
        "ChargePeriodStart": row["usage_start_time"],
        "ChargePeriodEnd": row["usage_end_time"],
        "ConsumedQuantity": row["usage"]["amount"],
        "ConsumedUnit": row["usage"]["unit"],
        "ContractedCost": row["cost"],
        "EffectiveCost": f"{billed:f}",
        "ListCost": row["cost_at_list"],
        "RegionId": row["location"]["region"],
        "ResourceId": row["resource"]["global_name"],
        "ResourceName": row["resource"]["name"],
        "ServiceName": row["service"]["description"],
        "SkuId": row["sku"]["id"],
        "SubAccountId": project["id"],
        "x_CostType": row["cost_type"],
        "x_Credits": credits,
        "x_CurrencyConversionRate": row["currency_conversion_rate"],
        "x_ExportTime": row["export_time"],
        "x_Location": row["location"]["location"],
        "x_Project": {"Id": project["id"], "Number": project["number"], "Name": project["name"]},
        "x_ServiceId": row["service"]["id"],
        "x_ConsumptionModelId": row["consumption_model"]["id"],
        "x_SystemLabels": [{"Key": one["key"], "Value": one["value"]} for one in row["system_labels"]],
    }
