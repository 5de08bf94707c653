"""The columns of FOCUS 1.2, filled from a charge of the ledger.

FOCUS is the FinOps Foundation's format for cost data (github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, tag v1.2,
specification/columns). Mandatory columns come whole; of the conditional ones those that apply to charges at list price.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from costguard.ledger.billed.machine_parts import accelerator_kind
from costguard.model.billing.billing_month import billing_month
from costguard.model.instance import InstanceKey, ProvisioningModel, region_of, vertex_path
from costguard.model.lifetime import Attribution, Charge
from costguard.model.price import FEE, OF_A_RUN, Price, Unit, is_address

VERSION: Final = "1.2"
CURRENCY: Final = "USD"
UNKNOWN: Final = "unknown"

COLUMNS: Final = (
    *("AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType"),
    *("BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass"),
    *("ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity"),
    *("ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName"),
    *(
        "ListCost",
        "ListUnitPrice",
        "PricingCategory",
        "PricingQuantity",
        "PricingUnit",
        "ProviderName",
        "PublisherName",
    ),
    *("RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName"),
    *("ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName"),
    *("SubAccountType", "Tags"),
)
DECIMALS: Final = frozenset(
    {
        *("BilledCost", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "ListCost"),
        *("ListUnitPrice", "PricingQuantity"),
    }
)
TIMES: Final = frozenset({"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"})
Value: TypeAlias = str | Decimal | datetime | None

_GOOGLE = "Google Cloud"
_PRECISE = Context(prec=28, rounding=ROUND_HALF_EVEN)
_STEP = Decimal("1e-12")  # of quantities: a nano-dollar is met even where a unit costs hundreds of dollars
_GB_OF_A_GIB = Fraction(2**30, 10**9)
# FOCUS, attribute Unit Format: a plural, or a singular and a plural time with a hyphen between.
_PRICED_BY: Final = {Unit.GIB_HOUR: "GiB-Hours", Unit.GB_HOUR: "GB-Hours", Unit.GIB_MONTH: "GiB-Months"}


@dataclass(frozen=True, slots=True)
class FocusCharge:
    """A charge with its VM, whose money it is and its price.

    `labels`: those at the charge's start. `disk`: the disk's name; "" for the VM's run.
    """

    key: InstanceKey
    name: str
    zone: str
    machine_type: str
    labels: Mapping[str, str]
    disk: str
    attribution: Attribution
    provisioning_model: ProvisioningModel
    charge: Charge
    price: Price


_OF_COMPUTE = {
    "ServiceCategory": "Compute",
    "ServiceName": "Compute Engine",
    "ServiceSubcategory": "Virtual Machines",
}
_OF_VERTEX = {
    "ServiceCategory": "AI and Machine Learning",
    "ServiceName": "Vertex AI",
    "ServiceSubcategory": "AI Platforms",
}


def focus_row(charged: FocusCharge, billing_account: str = UNKNOWN) -> tuple[Value, ...]:
    """The values of COLUMNS. Times are whole seconds, as seconds are billed.

    The ledger holds list prices, so the four costs are equal. The billing period is that of the charge's start: a
    charge is a part of a UTC day, and a month of Google's ends at 07:00 or 08:00 UTC.
    """
    charge, price = charged.charge, charged.price
    region = region_of(charged.zone)
    period_start, period_end = billing_month(charge.started_at)
    unit, quantity = _pricing(charge, price)
    cost, rate = charge.amount.dollars, Decimal(price.rate_nanos).scaleb(-9)
    used_unit, used = _consumed(charge)
    sku = price.sku_id or _own_sku(price)
    key = charged.key
    is_managed, of_vm = key.kind.is_of_vertex, _resource_id(key, charged.zone)
    disk = "" if (of_address := is_address(charge.resource)) else charged.disk
    values: dict[str, Value] = {
        "AvailabilityZone": None if is_managed else charged.zone,
        "BillingAccountId": billing_account,
        "BillingAccountType": "Billing account",
        "BillingCurrency": CURRENCY,
        "BillingPeriodEnd": period_end,
        "BillingPeriodStart": period_start,
        "ChargeCategory": "Usage",
        "ChargeDescription": _description(charged, region),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _whole_seconds(charge.ended_at),
        "ChargePeriodStart": _whole_seconds(charge.started_at),
        "ConsumedQuantity": used,
        "ConsumedUnit": used_unit,
        "ContractedUnitPrice": rate,
        "InvoiceIssuerName": _GOOGLE,
        "ListUnitPrice": rate,
        # Google may change a Spot price up to once a day: cloud.google.com/compute/docs/instances/spot.
        "PricingCategory": "Dynamic" if price.key.provisioning_model is ProvisioningModel.SPOT else "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ProviderName": _GOOGLE,
        "PublisherName": _GOOGLE,
        "RegionId": region,
        "RegionName": region,
        # A disk is known by its VM and name; an address has neither.
        "ResourceId": f"{of_vm}/disks/{disk}" if disk else of_vm,
        "ResourceName": disk or charged.name,
        "ResourceType": "External address" if of_address else "Disk" if disk else _type_of(key),
        **(_OF_VERTEX if is_managed else _OF_COMPUTE),
        "SkuId": sku,
        "SkuMeter": charge.resource,
        "SkuPriceDetails": json.dumps({"x_PriceSource": price.source}, ensure_ascii=False),
        # Google has no id for a price: the SKU, and from when on it is in force.
        "SkuPriceId": f"{sku}/{_stamp(price.in_force_from)}",
        "SubAccountId": key.project,
        "SubAccountName": key.project,
        "SubAccountType": "Project",
        "Tags": _tags(charged),
        **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost),
    }
    return tuple(values.get(name) for name in COLUMNS)


def _resource_id(key: InstanceKey, zone: str) -> str:
    if key.kind.is_of_vertex:
        return f"//aiplatform.googleapis.com/projects/{key.project}/locations/{zone}/{vertex_path(key.gce_id)}"
    return f"//compute.googleapis.com/projects/{key.project}/zones/{zone}/instances/{key.gce_id}"


def _type_of(key: InstanceKey) -> str:
    words = key.kind.in_words
    return f"{words[0].upper()}{words[1:]}" if key.kind.is_of_vertex else "Virtual machine"


def text_of(value: Value) -> str:
    """Formats a value for CSV: UTC times to the second, decimals without exponent, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return _stamp(value)
    return value if isinstance(value, str) else f"{value:f}"


def _pricing(charge: Charge, price: Price) -> tuple[str, Decimal]:
    """Returns the unit of the price, and the quantity in it to twelve decimals."""
    units = charge.quantity * (_GB_OF_A_GIB if price.unit is Unit.GB_HOUR else 1)
    amount = units * charge.seconds / price.unit.seconds(charge.started_at)
    unit = _PRICED_BY.get(price.unit) or _hours_of(charge.resource)
    return unit, _decimal(amount)


def _consumed(charge: Charge) -> tuple[str, Decimal]:
    unit = _hours_of(charge.resource)
    return unit, _decimal(charge.quantity * charge.seconds / 3600)


def _hours_of(resource: str) -> str:
    if kind := accelerator_kind(resource):
        return f"{kind}-Hours"
    if is_address(resource):
        return "Address-Hours"
    if resource.endswith(FEE):
        return "Fee-Hours"
    if resource.endswith(OF_A_RUN):
        return "vCPU-Hours" if resource.endswith(":core") else "Instance-Hours"
    return "GiB-Hours"


def _description(charged: FocusCharge, region: str) -> str:
    price = charged.price
    model = price.key.provisioning_model.in_words
    what = charged.machine_type or UNKNOWN
    vm = what if charged.key.kind.is_of_vertex else f"a {what} VM"
    return f"{charged.charge.resource} of {vm}, {model}, in {region}"


def _own_sku(price: Price) -> str:
    """The price list that ships with the product has no ids of Google's, and FOCUS asks for one."""
    return f"costguard/{price.key.resource}/{price.key.region}/{price.key.provisioning_model.value}"


def _tags(charged: FocusCharge) -> str:
    """The VM's labels; the ledger's own with their prefix."""
    whose = charged.attribution
    ours = {"costguard/job": whose.job, "costguard/owner": whose.owner, "costguard/preset": whose.preset}
    return json.dumps(
        {**charged.labels, **{key: value for key, value in ours.items() if value}}, ensure_ascii=False, sort_keys=True
    )


def _decimal(amount: Fraction) -> Decimal:
    exact = _PRECISE.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return exact.quantize(_STEP).normalize(_PRECISE) if exact else Decimal(0)


def _whole_seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
