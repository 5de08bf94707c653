"""What the page Presets shows: what each preset is, and what its VMs cost now and in this month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from costguard.ledger import burn_rates
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning
from costguard.model.instance import ProvisioningModel
from costguard.model.money import ZERO, Money, Priced
from costguard.model.preset import Preset
from costguard.pages.source import Source
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

_FEW = 4  # zones that are shown before the rest


@dataclass(frozen=True, slots=True)
class Card:
    """`preset` is None where VMs have one that the settings do not know any more."""

    name: str
    preset: Preset | None
    running: int
    spot: int  # of those
    present: int
    rate: Priced  # an hour, storage of those at rest included
    month: Money
    month_unpriced: int


@dataclass(frozen=True, slots=True)
class Presets:
    cards: Sequence[Card]
    month_first: date
    few: int = _FEW


def presets_page(source: Source, now: datetime) -> Presets:
    """Everything that the page shows, read in one transaction. Presets come in the order in which they are tried."""
    first = now.date().replace(day=1)
    known = source.rules.presets
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        burning = burn_rates.burning(connection, accrual)
        month = spend(connection, accrual, first, now.date(), [Grouping.PRESET])
    spent = {row.group[0]: row for row in month.rows}
    names = dict.fromkeys([*known, *(each.preset for each in burning), *spent])
    cards = []
    for name in names:
        row = spent.get(name)
        cards.append(
            _card(
                name,
                known.get(name),
                [each for each in burning if each.preset == name],
                ZERO if row is None else row.amounts.total,
                0 if row is None else row.unpriced,
            )
        )
    return Presets(cards, first)


def _card(name: str, preset: Preset | None, burning: Sequence[Burning], month: Money, unpriced: int) -> Card:
    return Card(
        name=name,
        preset=preset,
        running=sum(each.running for each in burning),
        spot=sum(each.running for each in burning if each.provisioning_model is ProvisioningModel.SPOT),
        present=sum(each.count for each in burning),
        rate=Priced(sum((each.rate for each in burning), ZERO), not any(each.unpriced for each in burning)),
        month=month,
        month_unpriced=unpriced,
    )
