"""Reads a row of Google's detailed export, or of its FOCUS table, into the fields that the bill keeps.

Google, "Structure of Detailed data export" and "Structure of FOCUS data export" (docs.cloud.google.com/billing/docs/
how-to/export-data-bigquery-tables). Both schemas grow: only named columns are read, and each may be absent or null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from costguard.bill.export_fields import (
    MOST_TEXT,
    Moment,
    UnreadableRow,
    billionths,
    check_period,
    from_billionths,
    is_storable,
    moment,
    moment_or_none,
    money,
    money_or_none,
    rate_text,
    record,
    records,
    shown,
    text,
)
from costguard.model.billing.bill import BilledKind, BillRow, CostType, Credit

_UNUSED = "compute.googleapis.com/is_unused_reservation"
_RESERVATION = "compute.googleapis.com/reservation_name"
# V-disk: //compute.googleapis.com/projects/<number>/zones/<zone>/disk/<id>; the API's own form is disks/. Instances:
# Mozilla's production query takes the id from /instances/([^/]+). Unused capacity has allocation/ in their place.
_GLOBAL_NAME = re.compile(
    r"//compute\.googleapis\.com/projects/(?P<project>[^/]+)/(?:(?:zones|regions)/(?P<place>[^/]+)|global)/"
    r"(?P<collection>instances?|disks?|allocations?|reservations?)/(?P<id>[^/]+)"
)
_KINDS = {"instance": BilledKind.INSTANCE, "disk": BilledKind.DISK}
# G-res2: resource.name of a VM is projects/<number>/instances/<name>, of a disk it is bare.
_VM_NAME = re.compile(r"projects/(?P<project>\d+)/instances/(?P<name>[^/]+)")
_COST_TYPES = {str(one): one for one in CostType}


class Resource(NamedTuple):
    """The resource that a row is billed for."""

    project_number: str
    kind: BilledKind
    resource_id: str
    resource_name: str
    project_id: str
    zone: str


class BillTerms(NamedTuple):
    """The terms that rows of many resources and days have in common."""

    service_id: str
    sku_id: str
    sku_text: str
    unit: str
    currency: str
    rate: str
    cost_type: CostType
    invoice_month: str
    consumption_model: str
    reservation_name: str
    is_unused_reservation: bool
    product: str
    adjustment: str


class _CreditTexts(NamedTuple):
    type: str
    name: str
    id: str


_Texts = TypeVar("_Texts", Resource, BillTerms, _CreditTexts)
_CREDIT_NAMES = {
    "committed usage discount": "COMMITTED_USAGE_DISCOUNT",
    "committed use discount": "COMMITTED_USAGE_DISCOUNT",
    "sustained usage discount": "SUSTAINED_USAGE_DISCOUNT",
    "sustained use discount": "SUSTAINED_USAGE_DISCOUNT",
}


class ExportRow(NamedTuple):
    """`amount` is in billionths of the terms' unit. `default_nanos` is the cost at the account's own price without a
    commitment; None where the row does not say."""

    source: str
    resource: Resource
    terms: BillTerms
    start: Moment
    end: Moment
    export: Moment | None
    amount: int
    list_nanos: int | None
    default_nanos: int | None
    cost_nanos: int
    credits: tuple[Credit, ...]

    def bill_row(self) -> BillRow:
        resource, terms = self.resource._asdict(), self.terms._asdict()
        return BillRow(
            **resource,
            **{**terms, "rate": Decimal(self.terms.rate)},
            usage_start=self.start.at,
            usage_end=self.end.at,
            pacific_day=self.start.pacific_day,
            utc_day=self.start.utc_day,
            amount=from_billionths(self.amount),
            list_nanos=self.list_nanos,
            default_nanos=self.default_nanos,
            cost_nanos=self.cost_nanos,
            credits=self.credits,
            export_time=self.export.at if self.export else None,
            source=self.source,
        )


Judged = ExportRow | UnreadableRow
"""A row, or why it is left out."""


def judged(row: Mapping[str, Any], before: datetime | None = None) -> Judged:
    """`read_row`, with the error as a value: a row that cannot be read ends nothing."""
    try:
        return read_row(row, before)
    except UnreadableRow as error:
        return error


def read_row(row: Mapping[str, Any], before: datetime | None = None) -> ExportRow:
    """Raises UnreadableRow, which says which field is wrong. Usage that begins after `before` is refused."""
    if "usage_start_time" in row:
        read = detailed_row(row)
    elif "ChargePeriodStart" in row:
        read = focus_row(row)
    else:
        raise UnreadableRow(
            "A row has neither usage_start_time nor ChargePeriodStart: it is of neither the detailed nor the FOCUS "
            "export.",
            "Read the table gcp_billing_export_resource_v1_... or gcp_billing_export_focus_..., or a file made from "
            "one.",
        )
    check_period(read.start, read.end, before)
    return read


def detailed_row(row: Mapping[str, Any]) -> ExportRow:
    """A row of gcp_billing_export_resource_v1_*. A cost that is absent is unreadable: it is never zero."""
    usage, sku, invoice = record(row.get("usage")), record(row.get("sku")), record(row.get("invoice"))
    start = moment(row["usage_start_time"], "usage_start_time")
    end = moment_or_none(row.get("usage_end_time"), "usage_end_time")
    unused, reservation = _labels_of(records(row.get("system_labels")), "key", "value")
    place = record(row.get("location"))
    terms = BillTerms(
        service_id=text(record(row.get("service")).get("id")),
        sku_id=text(sku.get("id")),
        sku_text=text(sku.get("description")),
        unit=text(usage.get("unit")),
        currency=text(row.get("currency")),
        rate=_rate(row.get("currency_conversion_rate"), "currency_conversion_rate", row.get("currency")),
        cost_type=_cost_type(row.get("cost_type")),
        invoice_month=text(invoice.get("month")),
        consumption_model=text(record(row.get("consumption_model")).get("id")),
        reservation_name=reservation,
        is_unused_reservation=unused,
        product=_product(records(row.get("tags")), "key", "value"),
        adjustment=text(record(row.get("adjustment_info")).get("type")),
    )
    project, resource = record(row.get("project")), record(row.get("resource"))
    return ExportRow(
        _source("detailed", row.get("billing_account_id")),
        _resource(
            text(resource.get("global_name")),
            text(resource.get("name")),
            text(project.get("number")),
            text(project.get("id")),
            text(place.get("zone") or place.get("location") or place.get("region")),
        ),
        _storable(terms),
        start,
        end or start,
        moment_or_none(row.get("export_time"), "export_time"),
        billionths(usage.get("amount") or 0, "usage.amount"),
        money_or_none(row.get("cost_at_list"), "cost_at_list"),
        money_or_none(row.get("cost_at_effective_price_default"), "cost_at_effective_price_default"),
        money(row.get("cost"), "cost"),
        _credits(records(row.get("credits")), ("type", "name", "id", "amount")),
    )


def focus_row(row: Mapping[str, Any]) -> ExportRow:
    """A row of gcp_billing_export_focus_*: Google's own mapping of the detailed export to FOCUS, read backwards.

    ConsumedQuantity is usage.amount, ResourceId is resource.global_name, ContractedCost is cost, and BilledCost is cost
    with its credits, as Google's published view has them ("FOCUS BigQuery view", 2024-03-19).
    """
    unused, reservation = _labels_of(records(row.get("x_SystemLabels")), "Key", "Value")
    start = moment(row["ChargePeriodStart"], "ChargePeriodStart")
    end = moment_or_none(row.get("ChargePeriodEnd"), "ChargePeriodEnd")
    project = {key.lower(): value for key, value in record(row.get("x_Project")).items()}
    credits = _credits(records(row.get("x_Credits")), ("Type", "Name", "Id", "Amount"))
    cost = row.get("ContractedCost")
    if cost is None or cost == "":  # what is billed, before its credits
        cost_nanos = money(row.get("BilledCost"), "BilledCost") - sum(credit.nanos for credit in credits)
    else:
        cost_nanos = money(cost, "ContractedCost")
    period = moment_or_none(row.get("BillingPeriodStart"), "BillingPeriodStart")
    terms = BillTerms(
        service_id=text(row.get("x_ServiceId")),
        sku_id=text(row.get("SkuId")),
        sku_text=text(row.get("ChargeDescription")),
        unit=text(row.get("ConsumedUnit")),
        currency=text(row.get("BillingCurrency")),
        rate=_rate(row.get("x_CurrencyConversionRate"), "x_CurrencyConversionRate", row.get("BillingCurrency")),
        cost_type=_cost_type(row.get("x_CostType")),
        invoice_month=f"{period.pacific_day:%Y%m}" if period else "",
        consumption_model=text(row.get("x_ConsumptionModelId")),
        reservation_name=reservation,
        is_unused_reservation=unused,
        product=_product(records(row.get("x_Tags")), "Key", "Value"),
        adjustment="CORRECTION" if text(row.get("ChargeClass")).lower() == "correction" else "",
    )
    return ExportRow(
        _source("focus", row.get("BillingAccountId")),
        _resource(
            text(row.get("ResourceId")),
            text(row.get("ResourceName")),
            text(project.get("number")),
            text(project.get("id") or row.get("SubAccountId")),
            text(row.get("AvailabilityZone") or row.get("x_Location") or row.get("RegionId")),
        ),
        _storable(terms),
        start,
        end or start,
        moment_or_none(row.get("x_ExportTime"), "x_ExportTime"),
        billionths(row.get("ConsumedQuantity") or 0, "ConsumedQuantity"),
        money_or_none(row.get("ListCost"), "ListCost"),
        None,
        cost_nanos,
        credits,
    )


def _source(export: str, account: Any) -> str:
    if not is_storable(text(account)):
        raise UnreadableRow(f"its billing account is none: {shown(text(account))}.")
    return f"{export}:{text(account)}"


def _rate(value: Any, field: str, currency: Any) -> str:
    """A row in dollars may leave its rate out; in another currency nothing is known without it."""
    if value is None or value == "":
        if text(currency) not in ("", "USD"):
            raise UnreadableRow(f"{field} is missing, and the row is in {shown(currency)}.")
        return "1"
    return rate_text(value, field)


def _storable(values: _Texts) -> _Texts:
    """Raises UnreadableRow for a text that no bill has, or no database takes."""
    _check_texts(values)
    return values


@lru_cache(maxsize=65_536)
def _check_texts(values: Resource | BillTerms | _CreditTexts) -> None:
    for field, value in values._asdict().items():
        if isinstance(value, str) and not is_storable(value):
            raise UnreadableRow(f"{field} has over {MOST_TEXT} characters, or some that no text has: {shown(value)}.")


@lru_cache(maxsize=65_536)
def _resource(global_name: str, name: str, project_number: str, project_id: str, place: str) -> Resource:
    """Reads a resource by its global name: project number and numeric id are the key, a name is only shown.

    A row of a VM that has a name alone, as in results of queries, is of a VM whose id is not known.
    """
    vm = _VM_NAME.fullmatch(name)
    bare = vm["name"] if vm else name
    match = _GLOBAL_NAME.fullmatch(global_name)
    if match is None:
        number = project_number or (vm["project"] if vm else "")
        kind = BilledKind.INSTANCE if vm and not global_name else BilledKind.NONE
        return _storable(Resource(number, kind, "", bare, project_id, place))
    kind = _KINDS.get(match["collection"].removesuffix("s"), BilledKind.RESERVATION)
    number = project_number or match["project"]
    return _storable(Resource(number, kind, match["id"], bare, project_id, match["place"] or place))


def _labels_of(labels: Iterable[Any], key: str, value: str) -> tuple[bool, str]:
    """(unused reservation, reservation's name) from system labels."""
    unused, reservation = False, ""
    for label in labels:
        name = record(label).get(key)
        if name == _UNUSED:
            unused = text(label.get(value)).lower() == "true"
        elif name == _RESERVATION:
            reservation = text(label.get(value))
    return unused, reservation


def _product(tags: Iterable[Any], key: str, value: str) -> str:
    """G-t4: the tag gcp-product marks the Compute usage that Vertex AI makes."""
    return next((text(tag.get(value)) for tag in tags if record(tag).get(key) == "gcp-product"), "")


def _cost_type(value: Any) -> CostType:
    """A type that is not known is no usage of a resource, so it is an adjustment."""
    return _COST_TYPES.get(text(value).lower() or "regular", CostType.ADJUSTMENT)


def _credits(entries: Iterable[Any], names: tuple[str, str, str, str]) -> tuple[Credit, ...]:
    if not entries:
        return ()
    kind, name, identity, amount = names
    credits = []
    for one in map(record, entries):
        words = text(one.get(name)), text(one.get(identity))
        texts = _storable(_CreditTexts(text(one.get(kind)) or _credit_type(words[0]), *words))
        credits.append(Credit(texts.type, texts.name, texts.id, money(one.get(amount), "credits.amount")))
    return tuple(sorted(credits))


def _credit_type(name: str) -> str:
    """Reads the type of a credit of rows before 10 September 2020, which name no type, from its name."""
    return next((kind for words, kind in _CREDIT_NAMES.items() if name.lower().startswith(words)), "")
