"""Queries an export's table: only the columns that are read, and only the days that are wanted.

BigQuery bills the columns of the partitions that a query names, so both are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from costguard.errors import BadAnswer

# Column -> the fields that are read of it; empty for those that are read whole.
_DETAILED: Mapping[str, tuple[str, ...]] = {
    "billing_account_id": (),
    "service": ("id",),
    "sku": ("id", "description"),
    "usage_start_time": (),
    "usage_end_time": (),
    "project": ("id", "number"),
    "system_labels": (),
    "tags": (),
    "location": ("location", "region", "zone"),
    "resource": ("name", "global_name"),
    "usage": ("amount", "unit"),
    "cost": (),
    "cost_at_list": (),
    "cost_at_effective_price_default": (),
    "currency": (),
    "currency_conversion_rate": (),
    "credits": (),
    "invoice": ("month",),
    "cost_type": (),
    "adjustment_info": ("type",),
    "consumption_model": ("id",),
    "export_time": (),
}
_FOCUS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    (
        *("BillingAccountId", "AvailabilityZone", "BilledCost", "BillingCurrency", "BillingPeriodStart", "ChargeClass"),
        *("ChargeDescription", "ChargePeriodStart", "ChargePeriodEnd", "ConsumedQuantity", "ConsumedUnit"),
        *("ContractedCost", "ListCost", "RegionId", "ResourceId", "ResourceName", "SkuId", "SubAccountId"),
        *("x_ConsumptionModelId", "x_CostType", "x_Credits", "x_CurrencyConversionRate", "x_ExportTime"),
        *("x_Location", "x_Project", "x_ServiceId", "x_SystemLabels", "x_Tags"),
    ),
    (),
)
_EARLIER = timedelta(days=90)  # usage that is billed so late is not read from a table that is cut by usage


@dataclass(frozen=True, slots=True)
class TableShape:
    """The answer of tables.get: the columns with their fields, and the column that cuts the table into days."""

    columns: Mapping[str, frozenset[str]]
    is_partitioned: bool
    partition_column: str  # "" for the time of loading

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> TableShape:
        fields = (answer.get("schema") or {}).get("fields") or []
        partitioning = answer.get("timePartitioning")
        return cls(
            {one["name"]: frozenset(inner["name"] for inner in one.get("fields") or ()) for one in fields},
            partitioning is not None,
            (partitioning or {}).get("field") or "",
        )


def export_query(table: str, shape: TableShape) -> str:
    """Standard SQL with the parameters `first` and `after`, for rows appended in between.

    Raises BadAnswer for a table that is no billing export. Columns that it lacks are left out.
    """
    wanted, appended = (_FOCUS, "x_ExportTime") if "ChargePeriodStart" in shape.columns else (_DETAILED, "export_time")
    if appended not in shape.columns:
        raise BadAnswer(
            f"{table} is no detailed billing export and no FOCUS export: it has no column {appended}.",
            "Name the table gcp_billing_export_resource_v1_... or gcp_billing_export_focus_....",
        )
    columns = ", ".join(
        _column(name, inner, shape.columns[name]) for name, inner in wanted.items() if name in shape.columns
    )
    conditions = [f"`{appended}` >= @first", f"`{appended}` < @after", *_partitions(shape, appended)]
    return f"SELECT {columns} FROM `{table}` WHERE {' AND '.join(conditions)}"  # noqa: S608 a checked name


def parameters(first: date, after: date) -> list[dict[str, Any]]:
    """`from_day` and `to_day` bound partitions: rows are loaded soon after they were appended, if not at once."""
    values = {
        "first": first,
        "after": after,
        "from_day": first - timedelta(days=1),
        "to_day": after + timedelta(days=2),
    }
    values["from_usage"] = first - _EARLIER
    return [
        {
            "name": name,
            "parameterType": {"type": "TIMESTAMP"},
            "parameterValue": {"value": f"{day.isoformat()} 00:00:00+00:00"},
        }
        for name, day in values.items()
    ]


def _column(name: str, inner: Iterable[str], present: frozenset[str]) -> str:
    fields = [one for one in inner if one in present]
    if not fields:
        return f"`{name}`"
    return f"STRUCT({', '.join(f'`{name}`.`{one}` AS `{one}`' for one in fields)}) AS `{name}`"


def _partitions(shape: TableShape, appended: str) -> Iterator[str]:
    if not shape.is_partitioned or shape.partition_column == appended:
        return
    if shape.partition_column:
        yield f"`{shape.partition_column}` >= @from_usage"
    else:
        yield "_PARTITIONTIME >= @from_day"
        yield "_PARTITIONTIME < @to_day"


def decoded(fields: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row `{"f": [{"v": ...}]}` by its schema. Scalars stay texts, times become seconds since 1970."""
    return {field["name"]: _value(field, cell.get("v")) for field, cell in zip(fields, row.get("f") or (), strict=True)}


def _value(field: Mapping[str, Any], value: Any) -> Any:
    if value is None:
        return None
    if field.get("mode") == "REPEATED":
        return [_value({**field, "mode": "NULLABLE"}, one.get("v")) for one in value]
    if field["type"] in ("RECORD", "STRUCT"):
        return decoded(field["fields"], value)
    if field["type"] == "TIMESTAMP":  # microseconds, as formatOptions.useInt64Timestamp asks for
        return f"{int(value) // 1_000_000}.{int(value) % 1_000_000:06}"
    return value
