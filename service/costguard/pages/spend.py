"""What the page Spend shows: how the month goes, and each day's dollars, stacked by what one asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from costguard.ledger.accrual import accrual_at
from costguard.model.money import ZERO, Money
from costguard.pages.curve import Curve, climb
from costguard.pages.source import Source
from costguard.pages.spend_asked import SpendAsked
from costguard.spend import choices
from costguard.spend.choices import Choices
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Amounts, UnpricedSpan
from costguard.spend.spend_story import Month, Story, month_of, story_of

SERIES = 6  # colours that can be told apart; what is beyond them is shown together
_LISTED_UNPRICED = 20
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Group:
    """`series` is the number of its colour, `share` its part of the total in thousandths."""

    row: SpendRow
    series: int
    share: int


@dataclass(frozen=True, slots=True)
class DayRow:
    day: date
    amounts: tuple[Money, ...]  # of each series, and of the others together
    total: Money


@dataclass(frozen=True, slots=True)
class Spend:
    month: Month
    curve: Curve
    total: Amounts
    groups: Sequence[Group]
    others: int  # how many groups have no colour of their own
    days: Sequence[DayRow]  # the latest first; those without spend are left out
    unpriced: Sequence[UnpricedSpan]
    unpriced_count: int
    choices: Choices


def spend_page(source: Source, asked: SpendAsked, now: datetime) -> Spend:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        # The story first: it may tell owners apart, and what it reads of today answers the month as well.
        story = story_of(connection, accrual, asked.first, asked.last, asked.group_by, asked.scope, SERIES)
        month = month_of(connection, accrual, asked.scope)
        known = choices.read(connection)
    whole = max(1, story.total.total.nanos)
    return Spend(
        month=month,
        curve=climb(month, now),
        total=story.total,
        groups=[
            Group(row, min(place, SERIES), 1000 * row.amounts.total.nanos // whole)
            for place, row in enumerate(story.groups)
        ],
        others=story.others,
        days=_days(story),
        unpriced=story.unpriced[:_LISTED_UNPRICED],
        unpriced_count=len(story.unpriced),
        choices=known,
    )


def _days(story: Story) -> list[DayRow]:
    rows = [DayRow(day, amounts, sum(amounts, ZERO)) for day, amounts in sorted(story.days.items(), reverse=True)]
    return [row for row in rows if row.total]
