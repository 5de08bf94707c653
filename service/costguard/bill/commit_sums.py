"""Adds up, by the hour, what commitments cost and cover: sums of rows of an export, kept next to those by the day.

Google bills by the hour: a fee's hour that its use does not take up is lost, and no day's sum shows in which hour that
was. So fees, what use took off them, and on-demand use with its covered part are kept by the hour in which a row's
usage begins, and nothing else of a row is: a few sums for each family, region and fee.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from costguard.bill.commit_words import PartKind, PartOfUse, family_of_fee, part_of_use
from costguard.bill.commitments import fee_of, is_discount, offset_of
from costguard.bill.export_row import ExportRow
from costguard.model.billing.bill import COMPUTE_ENGINE, DEFAULT_MODEL, BilledKind, CostType

_OF_VMS = (BilledKind.INSTANCE, BilledKind.RESERVATION)  # what is reserved and not used is billed as if it was
_MOST_NAME = 200  # characters of a fee's name that are kept: Google's have under a hundred


class CommitKey(NamedTuple):
    """Names a sum: an hour of a kind, place and fee.

    `sku_id` and `name` are those of a fee, "" for use; `rate` is of the currency for a dollar.
    """

    hour: datetime
    kind: PartKind
    family: str
    region: str
    sku_id: str
    name: str
    currency: str
    rate: str


@dataclass(slots=True)
class CommitSum:
    """Whole nanos of the key's currency.

    `use`: on-demand use at the account's price without a commitment. `covered`: the part of it that commitments cover.
    `saved`: what they took off it. `fee`: before what use took off it; `offset`: that, zero or less.
    """

    use: int = 0
    covered: int = 0
    saved: int = 0
    fee: int = 0
    offset: int = 0

    def merge(self, other: CommitSum) -> None:
        self.use += other.use
        self.covered += other.covered
        self.saved += other.saved
        self.fee += other.fee
        self.offset += other.offset


def commit_sum(row: ExportRow) -> tuple[CommitKey, CommitSum] | None:
    """Returns a row's part in the sums of its hour; None for a row that neither is a fee nor could be covered."""
    terms, resource = row.terms, row.resource
    is_fee, part = _kind_of(terms.sku_id, terms.service_id, terms.sku_text)
    if is_fee or (row.credits and fee_of(terms.sku_id, terms.service_id, terms.sku_text, row.credits)):
        family = family_of_fee(terms.sku_text)
        amounts = CommitSum(fee=row.cost_nanos, offset=offset_of(row.credits))
        return _key(row, PartKind.FEE, family, terms.sku_id, terms.sku_text[:_MOST_NAME]), amounts
    if part is None or terms.cost_type is not CostType.REGULAR:
        return None
    by_credit = -sum([credit.nanos for credit in row.credits if is_discount(credit.type)]) if row.credits else 0
    if not (resource.kind in _OF_VMS or by_credit):
        return None
    use = covered = row.cost_nanos
    saved = by_credit
    if terms.consumption_model in ("", DEFAULT_MODEL):
        covered = by_credit  # Google's credit is the price of what the commitment covers
    else:
        at_list = row.cost_nanos if row.list_nanos is None else row.list_nanos
        use = covered = at_list if row.default_nanos is None else row.default_nanos
        saved += use - row.cost_nanos
    return _key(row, part.kind, part.family), CommitSum(use=use, covered=covered, saved=saved)


def _key(row: ExportRow, kind: PartKind, family: str, sku_id: str = "", name: str = "") -> CommitKey:
    return CommitKey(
        _hour_of(row.start.at),
        kind,
        family,
        _region(row.resource.zone),
        sku_id,
        name,
        row.terms.currency,
        row.terms.rate,
    )


@lru_cache(maxsize=8192)
def _kind_of(sku_id: str, service_id: str, sku_text: str) -> tuple[bool, PartOfUse | None]:
    """(whether it is a fee whatever its credits, the part of a VM that use is billed for)."""
    is_compute = service_id in ("", COMPUTE_ENGINE)
    return fee_of(sku_id, service_id, sku_text, ()), part_of_use(sku_text) if is_compute else None


@lru_cache(maxsize=8192)
def _hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


@lru_cache(maxsize=8192)
def _region(place: str) -> str:
    """The region of a zone; a region, or a wider place, is itself."""
    region, _, zone = place.rpartition("-")
    return region if region and len(zone) == 1 else place
