"""Credits as the export has them: negative amounts in the list `credits` of a row, by type.

BU-cud: a commitment covers a share of the usage first, the sustained-use discount falls on the rest. KO-late: a
promotion pays for a row whole. E2 has no sustained-use discount, nor has Spot (Google, "Sustained use discounts").
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from costguard_sandbox.gce.billing.usage import HourOfUse
from costguard_sandbox.gce.meter.bill import cut, month_of, seconds_of_month

_COST_DECIMALS = Decimal("0.000001")
# Google, "Sustained use discounts": in each quarter of a month the incremental rate of N1 is 100, 80, 60 and 40 % of
# the base rate; BU-month: 30 % off a whole month.
_QUARTERS = (Fraction(0), Fraction(1, 5), Fraction(2, 5), Fraction(3, 5))


class CreditType(StrEnum):
    SUSTAINED = "SUSTAINED_USAGE_DISCOUNT"
    COMMITTED = "COMMITTED_USAGE_DISCOUNT"
    PROMOTION = "PROMOTION"


@dataclass(frozen=True, slots=True)
class ExportCredit:
    type: CreditType
    name: str
    amount: Decimal  # negative

    def shown(self) -> dict[str, str | None]:
        identity = f"{self.name.replace(' ', '')}"
        return {
            "id": identity,
            "name": self.name,
            "full_name": None,
            "type": str(self.type),
            "amount": f"{self.amount:f}",
        }


class Credits:
    """Gives each row its credits, in the order of the rows."""

    def __init__(self, types: frozenset[CreditType], committed_share: Fraction, promotion: Decimal) -> None:
        self._types = types
        self._share = committed_share
        self._promotion = promotion  # what is left of it, in the export's currency
        self._used: dict[tuple[str, str, datetime], int] = defaultdict(int)

    def of(self, use: HourOfUse, seconds: int, cost: Decimal) -> list[ExportCredit]:
        given: list[ExportCredit] = []
        left = cost
        is_n1 = use.resource.startswith("n1") and not use.spot
        if is_n1 and CreditType.COMMITTED in self._types:
            left += _add(given, CreditType.COMMITTED, "Committed use discount: CPU", Fraction(cost) * self._share)
        if is_n1 and CreditType.SUSTAINED in self._types:
            share = self._sustained(use, seconds)
            left += _add(given, CreditType.SUSTAINED, "Sustained use discount", Fraction(left) * share)
        if CreditType.PROMOTION in self._types and left > 0:
            paid = min(left, self._promotion)
            self._promotion -= paid
            _add(given, CreditType.PROMOTION, "FreeTrial:Credit", Fraction(paid))
        return given

    def _sustained(self, use: HourOfUse, seconds: int) -> Fraction:
        """The discount on this row, by how much of the month this VM has used the SKU by now."""
        month = month_of(use.hour)[0]
        key = use.billed.id, use.sku_id, month
        before = Fraction(self._used[key], seconds_of_month(use.hour))
        self._used[key] += seconds
        return _QUARTERS[min(3, int(before * 4))]


def _add(given: list[ExportCredit], kind: CreditType, name: str, amount: Fraction) -> Decimal:
    """Append it, unless it is nothing; the (negative) amount."""
    reduction = -cut(amount, _COST_DECIMALS)
    if reduction:
        given.append(ExportCredit(kind, name, reduction))
    return reduction
