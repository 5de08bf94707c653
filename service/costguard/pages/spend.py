"""The page Spend: how the month is going, and each day's dollars, stacked by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.model.money import ZERO, Money
from costguard.pages import query
from costguard.pages.charts import Curve, climb
from costguard.pages.page import Given, Source, page_router
from costguard.pages.query import UNOWNED, BadAddress, day
from costguard.pages.show import link
from costguard.spend import fleet as choices
from costguard.spend.fleet import Choices
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Amounts, Grouping, UnpricedSpan
from costguard.spend.spend_story import Month, Story, month_of, story_of
from costguard.web.memo import memo_of

SERIES = 6  # distinct colours; the groups beyond them are shown together
GROUPINGS = (Grouping.PRESET, Grouping.OWNER, Grouping.PROJECT, Grouping.PROVISIONING_MODEL)
_LONGEST = timedelta(days=366)
_LISTED_UNPRICED = 20
_FILTERS = ("project", "preset", "owner", "job")

router = page_router()


@dataclass(frozen=True, slots=True)
class Range:
    """A link to other days."""

    name: str
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class SpendPageQuery:
    """The address of Spend and Savings. None filters by nothing; an owner of "" finds unowned VMs."""

    first: date
    last: date
    group_by: Grouping
    today: date
    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    job: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.project, self.preset, self.owner, job=self.job)

    @property
    def filters(self) -> Mapping[str, str]:
        """As they stand in an address."""
        given = {name: getattr(self, name) for name in _FILTERS}
        return {name: value or UNOWNED for name, value in given.items() if value is not None}

    @property
    def is_this_month(self) -> bool:
        return (self.first, self.last) == (self.today.replace(day=1), self.today)

    @property
    def ranges(self) -> list[Range]:
        month = self.today.replace(day=1)
        before = month - timedelta(days=1)
        monday = self.today - timedelta(days=self.today.weekday())
        return [
            Range("This month", month, self.today),
            Range("Last month", before.replace(day=1), before),
            Range("Last week", monday - timedelta(days=7), monday - timedelta(days=1)),
            Range("30 days", self.today - timedelta(days=29), self.today),
            Range("90 days", self.today - timedelta(days=89), self.today),
            Range("Year", self.today - timedelta(days=364), self.today),
        ]

    def address(self, **changed: object) -> str:
        """This page with other parameters; None removes a filter."""
        return link("/spend", **{**self._days, "group_by": self.group_by.value, **self.filters, **changed})

    def narrowed(self, group: str) -> str:
        """This page with one of its groups alone, stacked by what people most likely look at next."""
        then = Grouping.PRESET if self.group_by is Grouping.OWNER else Grouping.OWNER
        return self.address(**{self.group_by.value: group or UNOWNED, "group_by": then.value})

    @property
    def savings_address(self) -> str:
        return link("/savings", **self._days, **self.filters)

    @property
    def csv_address(self) -> str:
        """The same days, groups and filters, to the nano-dollar."""
        return self._csv(f"day,{self.group_by.value}")

    @property
    def vm_csv_address(self) -> str:
        """The same days, groups and filters with a line for each VM."""
        return self._csv(f"{self.group_by.value},vm")

    def _csv(self, group_by: str) -> str:
        filters = {name: getattr(self, name) for name in _FILTERS}
        return link("/api/v1/spend", **self._days, group_by=group_by, **filters, format="csv")

    @property
    def _days(self) -> dict[str, date]:
        return {"from_": self.first, "to": self.last}


@dataclass(frozen=True, slots=True)
class SpendGroup:
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
class SpendPage:
    month: Month
    curve: Curve
    total: Amounts
    groups: Sequence[SpendGroup]
    others: int  # how many groups have no colour of their own
    days: Sequence[DayRow]  # the latest first; those without spend are left out
    unpriced: Sequence[UnpricedSpan]
    unpriced_count: int
    choices: Choices


@router.get("/spend")
def show_spend(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    wanted = spend_query(request.query_params, now.date())
    as_of, page = memo_of(request).once(("spend", wanted), lambda: (now, _gathered(pages.source, wanted, now)))
    return pages.renderer.page(request, "spend.html", as_of, query=wanted, spend=page, groupings=GROUPINGS)


def spend_query(address: Mapping[str, str], today: date) -> SpendPageQuery:
    """Raises BadAddress. By default the month to date by preset."""
    last = day(address, "to", today)
    first = day(address, "from", min(last, today).replace(day=1))
    if first > last:
        raise BadAddress(f"The first day, {first}, is after the last, {last}.", "Swap them.")
    if last - first >= _LONGEST:
        raise BadAddress(
            f"{first} to {last} is longer than a year.", "Choose fewer days, or download the CSV from the API."
        )
    name = address.get("group_by") or Grouping.PRESET.value
    if name not in {grouping.value for grouping in GROUPINGS}:
        names = ", ".join(grouping.value for grouping in GROUPINGS)
        raise BadAddress(f"Spend cannot be grouped by {name[:40]} here.", f"Choose one of {names}.")
    text = query.texts({name: address.get(name, "") for name in _FILTERS}, "/spend")
    if text.get("owner") == UNOWNED:
        text["owner"] = ""
    return SpendPageQuery(first, last, Grouping(name), today, **text)


def _gathered(source: Source, wanted: SpendPageQuery, now: datetime) -> SpendPage:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        # The story first: it may tell owners apart, and what it reads of today answers the month as well.
        story = story_of(connection, accrual, wanted.first, wanted.last, wanted.group_by, wanted.scope, SERIES)
        month = month_of(connection, accrual, wanted.scope)
        filter_choices = choices.read(connection)
    total = max(1, story.total.total.nanos)
    return SpendPage(
        month=month,
        curve=climb(month, now),
        total=story.total,
        groups=[
            SpendGroup(row, min(place, SERIES), 1000 * row.amounts.total.nanos // total)
            for place, row in enumerate(story.groups)
        ],
        others=story.others,
        days=_days(story),
        unpriced=story.unpriced[:_LISTED_UNPRICED],
        unpriced_count=len(story.unpriced),
        choices=filter_choices,
    )


def _days(story: Story) -> list[DayRow]:
    rows = [DayRow(day, amounts, sum(amounts, ZERO)) for day, amounts in sorted(story.days.items(), reverse=True)]
    return [row for row in rows if row.total]
