"""Tables with their schemas, and queries over them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

_DAY = timedelta(days=1)
_LEAST_BILLED = 10 * 2**20  # BigQuery, "Pricing": ten megabytes for each table that a query reads, at least
_MEGABYTE = 2**20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUERY = re.compile(r"SELECT (?P<columns>.+) FROM `(?P<table>[^`]+)` WHERE (?P<conditions>.+)", re.DOTALL)
_COLUMN = re.compile(r"`(\w+)`")
_STRUCT = re.compile(r"STRUCT\((?P<fields>.+)\) AS `(?P<name>\w+)`")
_FIELD = re.compile(r"`(\w+)`\.`(\w+)` AS `\2`")
_CONDITION = re.compile(r"(?:`(?P<column>\w+)`|(?P<pseudo>_PARTITIONTIME)) (?P<operator>>=|<) @(?P<parameter>\w+)")
Row = Mapping[str, Any]
Schema = Sequence[Mapping[str, Any]]


def _columns(kind: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "mode": "NULLABLE"} for name in names]


def _record(name: str, *fields: Mapping[str, Any], mode: str = "NULLABLE") -> dict[str, Any]:
    return {"name": name, "type": "RECORD", "mode": mode, "fields": list(fields)}


def _pairs(name: str, *names: str) -> dict[str, Any]:
    return _record(name, *_columns("STRING", *names), mode="REPEATED")


# Google, "Structure of Detailed data export": names and types, in its order, without what nobody reads.
DETAILED_SCHEMA: Schema = (
    *_columns("STRING", "billing_account_id"),
    _record("service", *_columns("STRING", "id", "description")),
    _record("sku", *_columns("STRING", "id", "description")),
    *_columns("TIMESTAMP", "usage_start_time", "usage_end_time"),
    _record("project", *_columns("STRING", "id", "number", "name", "ancestry_numbers")),
    _pairs("labels", "key", "value"),
    _pairs("system_labels", "key", "value"),
    _record("location", *_columns("STRING", "location", "country", "region", "zone")),
    _record("resource", *_columns("STRING", "name", "global_name")),
    _pairs("tags", "key", "value"),
    _record("price", *_columns("NUMERIC", "effective_price", "tier_start_amount"), *_columns("STRING", "unit")),
    *_columns("STRING", "transaction_type"),
    *_columns("TIMESTAMP", "export_time"),
    *_columns("FLOAT", "cost"),
    *_columns("STRING", "currency"),
    *_columns("FLOAT", "currency_conversion_rate"),
    _record(
        "usage",
        *_columns("FLOAT", "amount"),
        *_columns("STRING", "unit"),
        *_columns("FLOAT", "amount_in_pricing_units"),
        *_columns("STRING", "pricing_unit"),
    ),
    _record(
        "credits",
        *_columns("STRING", "name"),
        *_columns("FLOAT", "amount"),
        *_columns("STRING", "full_name", "id", "type"),
        mode="REPEATED",
    ),
    _record("invoice", *_columns("STRING", "month", "publisher_type")),
    *_columns("STRING", "cost_type"),
    _record("adjustment_info", *_columns("STRING", "id", "description", "mode", "type")),
    *_columns("FLOAT", "cost_at_list"),
    _record("consumption_model", *_columns("STRING", "id", "description")),
)
# Google, "Structure of FOCUS data export" (preview of July 2026): the columns that say what the detailed export says.
FOCUS_SCHEMA: Schema = (
    *_columns("STRING", "AvailabilityZone"),
    *_columns("NUMERIC", "BilledCost"),
    *_columns("STRING", "BillingAccountId", "BillingCurrency"),
    *_columns("TIMESTAMP", "BillingPeriodStart", "BillingPeriodEnd"),
    *_columns("STRING", "ChargeCategory", "ChargeClass", "ChargeDescription"),
    *_columns("TIMESTAMP", "ChargePeriodStart", "ChargePeriodEnd"),
    *_columns("NUMERIC", "ConsumedQuantity"),
    *_columns("STRING", "ConsumedUnit"),
    *_columns("NUMERIC", "ContractedCost", "EffectiveCost", "ListCost"),
    *_columns("STRING", "RegionId", "ResourceId", "ResourceName", "ServiceName", "SkuId", "SubAccountId"),
    *_columns("STRING", "x_CostType"),
    _record(
        "x_Credits",
        *_columns("STRING", "Name"),
        *_columns("NUMERIC", "Amount"),
        *_columns("STRING", "FullName", "Id", "Type"),
        mode="REPEATED",
    ),
    *_columns("FLOAT", "x_CurrencyConversionRate"),
    *_columns("TIMESTAMP", "x_ExportTime"),
    *_columns("STRING", "x_Location"),
    _record("x_Project", *_columns("STRING", "Id", "Number", "Name")),
    *_columns("STRING", "x_ServiceId", "x_ConsumptionModelId"),
    _pairs("x_SystemLabels", "Key", "Value"),
)


class QueryRefused(Exception):
    """BigQuery refuses a query, with its status and reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` gives (time of loading, row) of all that is in it now. It is cut by the day of that, or of a column."""

    schema: Schema
    rows: Callable[[], Sequence[tuple[datetime, Row]]]
    cut_by: str = ""
    is_cut: bool = True


@dataclass(slots=True)
class Result:
    fields: list[Mapping[str, Any]]
    rows: list[list[Any]]
    bytes_processed: int
    bytes_billed: int


@dataclass(slots=True)
class Tables:
    """The tables by PROJECT.DATASET.TABLE.

    The next `pending` answers say that a query has not ended; `page_rows` cuts pages.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    queries: list[Mapping[str, Any]] = field(default_factory=list)
    pending: int = 0
    page_rows: int = 1000

    def table(self, name: str) -> Table:
        if name not in self.tables:
            project, dataset, table = name.split(".")
            raise QueryRefused(404, "notFound", f"Not found: Table {project}:{dataset}.{table}")
        return self.tables[name]

    def run(self, sql: str, parameters: Mapping[str, datetime], most_bytes: int | None, int64_times: bool) -> Result:
        match = _QUERY.fullmatch(sql.strip())
        if match is None:
            raise QueryRefused(400, "invalidQuery", f"Syntax error: Unexpected {sql[:20]!r} at [1:1]")
        table = self.table(match["table"])
        by_name = {one["name"]: one for one in table.schema}
        fields = [_wanted(part, by_name) for part in _parts(match["columns"])]
        bounds = [_bound(part, parameters, table, by_name) for part in match["conditions"].split(" AND ")]
        scanned = [row for loaded, row in table.rows() if all(_in_partition(one, table, loaded, row) for one in bounds)]
        picked = [[row.get(one["name"]) for one in fields] for row in scanned]
        processed = sum(len(json.dumps(values, default=str)) for values in picked)
        billed = max(_LEAST_BILLED, -(-processed // _MEGABYTE) * _MEGABYTE)
        if most_bytes is not None and billed > most_bytes:
            message = f"Query exceeded limit for bytes billed: {most_bytes}. {billed} or higher required."
            raise QueryRefused(400, "bytesBilledLimitExceeded", message)
        kept = [
            [encoded(one, value, int64_times) for one, value in zip(fields, values, strict=True)]
            for values, row in zip(picked, scanned, strict=True)
            if all(one.holds(row) for one in bounds)
        ]
        return Result(fields, kept, processed, billed)


@dataclass(frozen=True, slots=True)
class _Bound:
    column: str  # "" for _PARTITIONTIME
    is_least: bool
    moment: datetime

    def holds(self, row: Row) -> bool:
        return not self.column or self.admits(_moment(row[self.column]))

    def admits(self, moment: datetime) -> bool:
        return moment >= self.moment if self.is_least else moment < self.moment


def _in_partition(bound: _Bound, table: Table, loaded: datetime, row: Row) -> bool:
    """Says whether the row's partition is read at all: only a bound on the column that partitions the table keeps one
    from it.
    """
    if not table.is_cut or bound.column != table.cut_by:
        return True
    day = (_moment(row[table.cut_by]) if table.cut_by else loaded).replace(hour=0, minute=0, second=0, microsecond=0)
    if not table.cut_by:
        return bound.admits(day)
    return day + _DAY > bound.moment if bound.is_least else day < bound.moment


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _wanted(part: str, schema: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    whole, struct = _COLUMN.fullmatch(part), _STRUCT.fullmatch(part)
    name = whole[1] if whole else struct["name"] if struct else ""
    if name not in schema:
        raise QueryRefused(400, "invalidQuery", f"Unrecognized name: {part[:40]} at [1:8]")
    if struct is None:
        return schema[name]
    fields = {one["name"]: one for one in schema[name]["fields"]}
    inner = []
    for one in _parts(struct["fields"]):
        match = _FIELD.fullmatch(one)
        if match is None or match[1] != name or match[2] not in fields:
            raise QueryRefused(400, "invalidQuery", f"Field name {one[:40]} does not exist in STRUCT at [1:8]")
        inner.append(fields[match[2]])
    return {**schema[name], "fields": inner}


def _bound(
    part: str, parameters: Mapping[str, datetime], table: Table, schema: Mapping[str, Mapping[str, Any]]
) -> _Bound:
    match = _CONDITION.fullmatch(part.strip())
    if match is None or match["parameter"] not in parameters:
        raise QueryRefused(400, "invalidQuery", f"Syntax error or unknown parameter: {part[:60]!r}")
    column = match["column"] or ""
    if column and column not in schema:
        raise QueryRefused(400, "invalidQuery", f"Unrecognized name: {column}")
    if not column and (table.cut_by or not table.is_cut):
        raise QueryRefused(400, "invalidQuery", "Unrecognized name: _PARTITIONTIME")
    return _Bound(column, match["operator"] == ">=", parameters[match["parameter"]])


def encoded(column: Mapping[str, Any], value: Any, int64_times: bool) -> Any:
    """Encodes a value as the REST API prints it: every scalar a text, records as {"f": [{"v": ...}]}."""
    if column["mode"] == "REPEATED":
        one = {**column, "mode": "NULLABLE"}
        return [{"v": encoded(one, item, int64_times)} for item in value or ()]
    if value is None:
        return None
    if column["type"] == "RECORD":
        return {"f": [{"v": encoded(inner, value.get(inner["name"]), int64_times)} for inner in column["fields"]]}
    if column["type"] == "TIMESTAMP":
        micros = (_moment(value) - _EPOCH) // timedelta(microseconds=1)
        return str(micros) if int64_times else _double(micros / 1e6)
    return _double(float(value)) if column["type"] == "FLOAT" else str(value)


def _double(value: float) -> str:
    """K-kms: 5.28E-4, 1.7566668E9, 23584.0, 1.0."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits = f"{Decimal(repr(value)):E}".replace("E+", "E")
    mantissa, _, exponent = digits.partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{exponent}"


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    moment = datetime.fromisoformat(str(value).removesuffix(" UTC"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
