"""Which days of whose money the pages of spend are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from costguard.model.budget import Scope
from costguard.pages.asked import LONGEST as LONGEST_NAME
from costguard.pages.asked import UNCLAIMED, BadAddress, day
from costguard.pages.show import link
from costguard.spend.spend_rows import Grouping

LONGEST = timedelta(days=366)
GROUPINGS = (Grouping.PRESET, Grouping.OWNER, Grouping.PROJECT, Grouping.PROVISIONING_MODEL)
_FILTERS = ("project", "preset", "owner", "job")


@dataclass(frozen=True, slots=True)
class Range:
    """A link to other days."""

    name: str
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class SpendAsked:
    """None filters by nothing; an owner of "" asks for the unclaimed."""

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
        return {name: value or UNCLAIMED for name, value in given.items() if value is not None}

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
        """This page with something else; None takes a filter away."""
        return link("/spend", **{**self._days, "group_by": self.group_by.value, **self.filters, **changed})

    def narrowed(self, group: str) -> str:
        """This page with one of its groups alone, stacked by what is most likely asked of it next."""
        then = Grouping.PRESET if self.group_by is Grouping.OWNER else Grouping.OWNER
        return self.address(**{self.group_by.value: group or UNCLAIMED, "group_by": then.value})

    @property
    def saved_address(self) -> str:
        return link("/spend/saved", **self._days, **self.filters)

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


def spend_asked(query: Mapping[str, str], today: date) -> SpendAsked:
    """Raises BadAddress. The month to date by preset, where nothing else is asked for."""
    last = day(query, "to", today)
    first = day(query, "from", min(last, today).replace(day=1))
    if first > last:
        raise BadAddress(f"The first day, {first}, is after the last, {last}.", "Exchange them.")
    if last - first >= LONGEST:
        raise BadAddress(
            f"{first} to {last} is longer than a year.", "Choose fewer days, or take the CSV from the API."
        )
    name = query.get("group_by") or Grouping.PRESET.value
    if name not in {grouping.value for grouping in GROUPINGS}:
        known = ", ".join(grouping.value for grouping in GROUPINGS)
        raise BadAddress(f"Spend is not shown by {name[:40]}.", f"Choose one of {known}.")
    return SpendAsked(first, last, Grouping(name), today, **_filters(query))


def _filters(query: Mapping[str, str]) -> dict[str, str]:
    given = {name: query[name] for name in _FILTERS if query.get(name)}
    for name, value in given.items():
        if len(value) > LONGEST_NAME or "\x00" in value:
            raise BadAddress(f"The address's {name} is no name that a VM can have.", "Start again from the first page.")
    if given.get("owner") == UNCLAIMED:
        given["owner"] = ""
    return given
