"""The page Spend: how the month is going, and each day's dollars, stacked by group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import quote

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger.accrual import accrual_at
from costguard.ledger.gaps import UnpricedSpan, gaps
from costguard.model.budget import LabelFilter, Scope
from costguard.model.moments import day_start
from costguard.model.money import ZERO, Amounts, Money
from costguard.pages import query
from costguard.pages.charts import Curve, climb
from costguard.pages.page import Given, Source, page_router
from costguard.pages.query import UNOWNED, BadAddress, day
from costguard.pages.show import link
from costguard.spend import fleet as choices
from costguard.spend.fleet import Choices
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Grouping
from costguard.spend.spend_story import Month, Story, label_story, month_of, story_of
from costguard.stages import listing as stages
from costguard.stages.listing import StageView
from costguard.web.memo import memo_of

SERIES = 6  # distinct colours; the groups beyond them are shown together
GROUPINGS = (Grouping.PRESET, Grouping.OWNER, Grouping.PROJECT, Grouping.PROVISIONING_MODEL)
_LONGEST = timedelta(days=366)
_LISTED_UNPRICED = 20
_LISTED_GROUPS = 100  # the most expensive; a label that each run has for itself may have thousands of values
_FILTERS = ("project", "preset", "owner", "job")
_OF_LABEL = "label:"

router = page_router()


@dataclass(frozen=True, slots=True)
class Range:
    """A link to other days."""

    name: str
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class SpendPageQuery:
    """The address of Spend and Savings. None filters by nothing; an owner of "" finds unowned VMs.

    With `by_label` days are stacked by this label's values, whatever `group_by` is.
    """

    first: date
    last: date
    group_by: Grouping
    today: date
    project: str | None = None
    preset: str | None = None
    owner: str | None = None
    job: str | None = None
    label: LabelFilter | None = None
    by_label: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.project, self.preset, self.owner, job=self.job, label=self.label)

    @property
    def grouping(self) -> str:
        """Returns the grouping as it stands in an address."""
        return self.group_by.value if self.by_label is None else f"{_OF_LABEL}{self.by_label}"

    @property
    def filters(self) -> Mapping[str, str]:
        """Returns the filters as they stand in an address."""
        given = {name: getattr(self, name) for name in _FILTERS}
        filters = {name: value or UNOWNED for name, value in given.items() if value is not None}
        return filters if self.label is None else {**filters, "label": str(self.label)}

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
        return link("/spend", **{**self._days, "group_by": self.grouping, **self.filters, **changed})

    def narrowed(self, group: str) -> str:
        """This page with one of its groups alone, stacked by what people most likely look at next."""
        if self.by_label is not None:
            return self.address(label=group, group_by=Grouping.OWNER.value)
        then = Grouping.PRESET if self.group_by is Grouping.OWNER else Grouping.OWNER
        return self.address(**{self.group_by.value: group or UNOWNED, "group_by": then.value})

    @property
    def savings_address(self) -> str:
        """Savings have no filter by label."""
        return link("/savings", **self._days, **{name: v for name, v in self.filters.items() if name != "label"})

    @property
    def bill_address(self) -> str:
        """The bill has projects alone."""
        return link("/bill", **self._days, **{name: value for name, value in self.filters.items() if name == "project"})

    @property
    def csv_address(self) -> str:
        """The same days, groups and filters, to the nano-dollar; values of a label in all, not by day."""
        if self.by_label is not None:
            return self._csv(None, f"/api/v1/spend/labels/{quote(self.by_label, safe='')}")
        return self._csv(f"day,{self.group_by.value}")

    @property
    def vm_csv_address(self) -> str:
        """The same days, groups and filters with a line for each VM."""
        return self._csv("vm" if self.by_label is not None else f"{self.group_by.value},vm")

    def _csv(self, group_by: str | None, path: str = "/api/v1/spend") -> str:
        filters = {name: getattr(self, name) for name in (*_FILTERS, "label")}
        return link(path, **self._days, group_by=group_by, **filters, format="csv")

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
class UnlistedGroups:
    """The cheapest groups together, where there are more than are listed."""

    count: int
    seconds: int
    total: Money


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
    price_note: str | None  # how old prices are that came with Costguard
    groups: Sequence[SpendGroup]  # the most expensive
    unlisted: UnlistedGroups | None
    stacked: int  # how many of the groups have a colour of their own
    others: int  # how many groups have no colour of their own
    days: Sequence[DayRow]  # the latest first; those without spend are left out
    unpriced: Sequence[UnpricedSpan]
    unpriced_count: int
    choices: Choices
    label_choices: Mapping[str, Sequence[LabelFilter]]
    staged: Sequence[StageView]  # data near the VMs: its storage is on the bucket's bill, and in no amount above


@router.get("/spend")
def show_spend(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    labels = pages.source.rules.spend_labels
    wanted = spend_query(request.query_params, now.date(), labels)
    as_of, page = memo_of(request).once(("spend", wanted), lambda: (now, _gathered(pages.source, wanted, now)))
    return pages.renderer.page(
        request, "spend.html", as_of, query=wanted, spend=page, groupings=GROUPINGS, labels=labels
    )


def spend_query(address: Mapping[str, str], today: date, labels: Collection[str] = ()) -> SpendPageQuery:
    """Raises BadAddress. By default the month to date by preset; `labels` are those named in the settings."""
    last = day(address, "to", today)
    first = day(address, "from", min(last, today).replace(day=1))
    if first > last:
        raise BadAddress(f"The first day, {first}, is after the last, {last}.", "Swap them.")
    if last - first >= _LONGEST:
        raise BadAddress(
            f"{first} to {last} is longer than a year.", "Choose fewer days, or download the CSV from the API."
        )
    name = address.get("group_by") or Grouping.PRESET.value
    label = _label(address.get("label", ""), labels)
    by_label = _named(name.removeprefix(_OF_LABEL), labels) if name.startswith(_OF_LABEL) else None
    if by_label is not None:
        name = Grouping.PRESET.value
    if name not in {grouping.value for grouping in GROUPINGS}:
        names = ", ".join(grouping.value for grouping in GROUPINGS)
        raise BadAddress(f"Spend cannot be grouped by {name[:40]} here.", f"Choose one of {names}.")
    text = query.texts({name: address.get(name, "") for name in _FILTERS}, "/spend")
    if text.get("owner") == UNOWNED:
        text["owner"] = ""
    # One label at a time: what is filtered by one is stacked by something else.
    return SpendPageQuery(
        first, last, Grouping(name), today, **text, label=label, by_label=by_label if label is None else None
    )


def _label(text: str, labels: Collection[str]) -> LabelFilter | None:
    if not text:
        return None
    try:
        label = LabelFilter.parse(text)
    except ValueError as error:
        raise BadAddress(f"The address's label is not {error}.", "Start again from /spend.") from None
    _named(label.label, labels)
    return label


def _named(label: str, labels: Collection[str]) -> str:
    """Raises BadAddress for a label that is not added up day by day."""
    if label not in labels:
        raise BadAddress(
            f"The label {label[:63]} is not named in the settings.",
            "Name it in [spend] labels, or ask the API for spend by any label: GET /api/v1/spend/labels/{label}.",
        )
    return label


def _gathered(source: Source, wanted: SpendPageQuery, now: datetime) -> SpendPage:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        days, scope = (wanted.first, wanted.last), wanted.scope
        price_note = accrual.price_note
        unpriced = gaps(connection, accrual, *days, scope, _LISTED_UNPRICED)
        # The story before the month: it may tell owners apart, and what it reads of today answers the month as well.
        if wanted.by_label is None:
            story = story_of(connection, accrual, *days, wanted.group_by, scope, SERIES)
        else:
            story = label_story(connection, accrual, *days, wanted.by_label, scope, SERIES)
        month = month_of(connection, accrual, scope)
        filter_choices = choices.read(connection)
        label_choices = {
            label: choices.values_of_label(connection, label, day_start(wanted.first))
            for label in source.rules.spend_labels
        }
        staged = [view for view in stages.views(connection, source.rules.jobs.stage, now) if _is_of(view, wanted)]
    total = max(1, story.total.total.nanos)
    return SpendPage(
        month=month,
        curve=climb(month, now),
        total=story.total,
        price_note=price_note,
        groups=[
            SpendGroup(row, min(place, SERIES), 1000 * row.amounts.total.nanos // total)
            for place, row in enumerate(story.groups[:_LISTED_GROUPS])
        ],
        unlisted=_unlisted(story.groups[_LISTED_GROUPS:]),
        stacked=len(story.groups) - story.others,
        others=story.others,
        days=_days(story),
        unpriced=unpriced,
        unpriced_count=story.unpriced,
        choices=filter_choices,
        label_choices=label_choices,
        staged=staged,
    )


def _is_of(view: StageView, wanted: SpendPageQuery) -> bool:
    """Says whether a job that the page's filters let through uses a stage. A stage has no preset and no labels."""
    scope = wanted.scope
    return any(
        (scope.project in (None, use.project))
        and (scope.owner in (None, use.owner))
        and (scope.job in (None, use.job_id))
        for use in view.uses
    ) or not (scope.project or scope.owner or scope.job)


def _unlisted(rows: Sequence[SpendRow]) -> UnlistedGroups | None:
    if not rows:
        return None
    amounts = [row.amounts for row in rows]
    return UnlistedGroups(len(rows), sum(one.seconds for one in amounts), sum((one.total for one in amounts), ZERO))


def _days(story: Story) -> list[DayRow]:
    rows = [DayRow(day, amounts, sum(amounts, ZERO)) for day, amounts in sorted(story.days.items(), reverse=True)]
    return [row for row in rows if row.total]
