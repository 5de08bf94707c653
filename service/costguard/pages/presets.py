"""The page Presets: what each preset is, and what its VMs cost now and this month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.jobs.decide.measures.start_times import StartTimes
from costguard.jobs.rows.history import start_rows
from costguard.ledger.accrual import accrual_at
from costguard.ledger.fleet_rows import Burning
from costguard.ledger.running import burn_rates
from costguard.model.instance import ProvisioningModel
from costguard.model.money import ZERO, Money, Priced
from costguard.model.preset import Preset
from costguard.pages.page import Given, Source, page_router
from costguard.spend.spend import SpendRow, spend
from costguard.spend.spend_rows import Grouping
from costguard.web.memo import memo_of

_FEW = 4  # zones that are shown before the rest

router = page_router()


@dataclass(frozen=True, slots=True)
class PresetCard:
    """`preset` is None where VMs have one that is no longer in the settings."""

    name: str
    preset: Preset | None
    running: int
    spot: int  # of those
    present: int
    rate: Priced  # an hour, including the storage of stopped VMs
    month: Money
    month_unpriced: int
    starts: StartTimes | None  # of its jobs' VMs, in all zones


@dataclass(frozen=True, slots=True)
class PresetsPage:
    cards: Sequence[PresetCard]
    month_first: date
    few: int = _FEW


@router.get("/presets")
def show_presets(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    as_of, page = memo_of(request).once("presets", lambda: (now, _gathered(pages.source, now)))
    return pages.renderer.page(request, "presets.html", as_of, presets=page)


def _gathered(source: Source, now: datetime) -> PresetsPage:
    """Everything that the page shows, read in one transaction. Presets come in the order in which they are tried."""
    first, presets = now.date().replace(day=1), source.rules.presets
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        burning = burn_rates.burning(connection, accrual)
        starts = start_rows.read(connection, now)
        month = spend(connection, accrual, first, now.date(), [Grouping.PRESET])
    spent = {row.group[0]: row for row in month.rows}
    names = dict.fromkeys([*presets, *(group.preset for group in burning), *spent])
    cards = [
        _card(
            name,
            presets.get(name),
            [group for group in burning if group.preset == name],
            spent.get(name),
            starts.get(name, {}).get(""),
        )
        for name in names
    ]
    return PresetsPage(cards, first)


def _card(
    name: str, preset: Preset | None, burning: Sequence[Burning], spent: SpendRow | None, starts: StartTimes | None
) -> PresetCard:
    return PresetCard(
        name=name,
        preset=preset,
        running=sum(group.running for group in burning),
        spot=sum(group.running for group in burning if group.provisioning_model is ProvisioningModel.SPOT),
        present=sum(group.count for group in burning),
        rate=Priced(sum((group.rate for group in burning), ZERO), not any(group.unpriced for group in burning)),
        month=ZERO if spent is None else spent.amounts.total,
        month_unpriced=0 if spent is None else spent.unpriced,
        starts=starts,
    )
