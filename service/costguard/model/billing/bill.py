"""Google's bill: what one row of its billing export says, or the sum of rows that say the same.

Figures of money are whole nanos of the row's own currency (a billionth of a euro, where it is euros): dollars times
`rate` make the currency. Days are cut in US Pacific time, as Google's own queries cut them
(docs.cloud.google.com/billing/docs/how-to/bq-examples).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

PACIFIC = ZoneInfo("America/Los_Angeles")
COMPUTE_ENGINE = "6F81-5844-456A"
"""The service id of Compute Engine in every export."""
DEFAULT_MODEL = "7754-699E-0EBF"
"""The consumption model `Default`: usage that no commitment covers. Rows before July 2025 name none."""


class BilledKind(StrEnum):
    """The kind of resource that a row is billed for, from its resource.global_name."""

    INSTANCE = "instance"
    DISK = "disk"
    RESERVATION = "reservation"
    NONE = ""  # network, images, snapshots, licences without a VM, support: nothing that the ledger keys


class CostType(StrEnum):
    """The type of a cost. Only REGULAR belongs to a resource; an adjustment may name one."""

    REGULAR = "regular"
    TAX = "tax"
    ADJUSTMENT = "adjustment"
    ROUNDING_ERROR = "rounding_error"


@dataclass(frozen=True, slots=True, order=True)
class Credit:
    """A reduction: `nanos` is negative. `type` is Google's word, such as SUSTAINED_USAGE_DISCOUNT."""

    type: str
    name: str
    id: str
    nanos: int


@dataclass(frozen=True, slots=True)
class BillRow:
    """A row of an export, or several of one day that agree in all but amounts, times and costs.

    `amount` is in `unit`, Google's base unit: seconds, byte-seconds, bytes, count. None stands for what the row does
    not say. `export_time` is the newest of the rows.
    """

    project_number: str
    project_id: str
    kind: BilledKind
    resource_id: str  # the numeric id; "" where the row names none
    resource_name: str  # bare, without `projects/.../instances/`
    zone: str  # or the region, where the row names no zone
    service_id: str
    sku_id: str
    sku_text: str
    usage_start: datetime
    usage_end: datetime
    pacific_day: date
    utc_day: date
    amount: Decimal
    unit: str
    list_nanos: int | None  # at Google's list price, before credits
    cost_nanos: int  # at the account's price, before credits
    credits: tuple[Credit, ...]
    currency: str
    rate: Decimal  # of the currency for a dollar
    cost_type: CostType
    invoice_month: str  # "202405"
    consumption_model: str
    reservation_name: str
    is_unused_reservation: bool
    product: str  # "vertex_ai" marks usage that Vertex AI made; "" for the rest
    adjustment: str  # Google's word, such as USAGE_CORRECTION; "" for the rest
    export_time: datetime | None
    source: str  # "detailed:<billing account>" or "focus:<billing account>"
    row_count: int = 1
    default_nanos: int | None = None  # at the account's price without a commitment; None where the row does not say
    repeated_count: int = 0
    """The number of rows that equal an earlier one of the same batch in every field: Google's duplicates, not ours."""

    @property
    def effective_nanos(self) -> int:
        """Returns what the account pays, in nano-dollars: the cost less its credits."""
        return self.cost_nanos + sum(credit.nanos for credit in self.credits)
