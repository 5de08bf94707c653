"""Computes the savings and the costs of commitments, in both of Google's data models. Pure.

Until 2025 a spend-based commitment was a fee, and a credit on the usage that it covered; a resource-based one still is.
Since then (existing accounts: since 21 January 2026) covered usage has a discounted price and the commitment's
consumption model, and the fee a credit FEE_UTILIZATION_OFFSET for the part of it that usage took up. Google,
"Spend-based CUD data model changes" and "Sample queries for the new CUDs data model"
(docs.cloud.google.com/docs/cuds-example-queries): savings are cost less cost_at_effective_price_default.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from costguard.model.billing.bill import COMPUTE_ENGINE, DEFAULT_MODEL, BillRow, Credit

FLEXIBLE_FEES = frozenset({"5515-81A8-03A2", "B22F-51BE-D599"})
"""Fees of Compute flexible commitments in the model since 2025, of one year and of three
(docs.cloud.google.com/docs/cuds-migration)."""
_FORMER_FLEXIBLE_FEES = frozenset({"F61D-4D51-AAFC", "6723-40D7-8BDC"})
YEARS_OF_FEE = {"5515-81A8-03A2": 1, "B22F-51BE-D599": 3, "F61D-4D51-AAFC": 1, "6723-40D7-8BDC": 3}
"""The terms of the flexible commitments, by the SKUs of their fees (as above)."""
_OFFSET = "FEE_UTILIZATION_OFFSET"
_DISCOUNT = "COMMITTED_USAGE_DISCOUNT"  # of resources; _DOLLAR_BASE for what was spent


def is_fee(row: BillRow) -> bool:
    """Says whether the row is the fee of a commitment to Compute Engine's resources, which is paid whether used or not.

    It goes by the SKU's id, by the credit that only fees have, or by its words: Google's own query of what commitments
    save (bigquery-utils, monthly_cud_sud_savings.sql) knows the fees of resource-based ones so.
    """
    return fee_of(row.sku_id, row.service_id, row.sku_text, row.credits)


def fee_of(sku_id: str, service_id: str, sku_text: str, credits: Sequence[Credit]) -> bool:
    """`is_fee`, of the fields that it goes by."""
    if sku_id in FLEXIBLE_FEES or sku_id in _FORMER_FLEXIBLE_FEES:
        return True
    if service_id not in ("", COMPUTE_ENGINE):
        return False  # Cloud SQL and others sell commitments of their own, and no VM saves by them
    return "commitment" in sku_text.lower() or any(credit.type == _OFFSET for credit in credits)


def names_use(row: BillRow) -> bool:
    """Says whether the fee's rows say how much of it was used: those of the model since 2025 do."""
    return row.sku_id in FLEXIBLE_FEES or any(credit.type == _OFFSET for credit in row.credits)


def offset_nanos(row: BillRow) -> int:
    """Returns the amount that use took off the fee, zero or less, in nanos of the row's currency."""
    return offset_of(row.credits)


def offset_of(credits: Sequence[Credit]) -> int:
    """`offset_nanos`, of credits."""
    return sum(credit.nanos for credit in credits if credit.type == _OFFSET)


def is_discount(credit_type: str) -> bool:
    """Says whether the credit is a commitment's discount on the usage that it covers."""
    return credit_type.startswith(_DISCOUNT)


def list_nanos(row: BillRow) -> int:
    """The cost at list price in nanos of the row's currency; at the account's own price where the row names no list."""
    if row.list_nanos is not None:
        return row.list_nanos
    return row.cost_nanos if row.default_nanos is None else row.default_nanos


def price_savings(row: BillRow) -> tuple[int, int]:
    """(by a commitment's price, by the account's contract), in nanos of the row's currency, before credits.

    Where the row does not say what the account would have paid without the commitment, all of it is the commitment's.
    """
    at_list = list_nanos(row)
    if row.consumption_model in ("", DEFAULT_MODEL):
        return 0, at_list - row.cost_nanos
    at_default = at_list if row.default_nanos is None else row.default_nanos
    return at_default - row.cost_nanos, at_list - at_default


def saved_nanos(row: BillRow) -> Fraction:
    """Returns the amount that commitments took off the row, by price and by credit, in nano-dollars."""
    by_credit = sum(credit.nanos for credit in row.credits if is_discount(credit.type))
    return Fraction(price_savings(row)[0] - by_credit) / Fraction(row.rate)
