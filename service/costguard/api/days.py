"""A range of UTC days, as reports are asked for it."""

from __future__ import annotations

from datetime import date
from http import HTTPStatus
from typing import Any

from pydantic import Field

from costguard.api.fields import Day, Query
from costguard.web.problems import FieldError, ProblemError


class DaysQuery(Query):
    from_: Day | None = Field(None, alias="from", description="The first UTC day; default: the month's first.")
    to: Day | None = Field(None, description="The last UTC day; default: today.")

    def days(self, today: date) -> tuple[date, date]:
        """The first and the last. Raises a 422 problem where the last is before the first."""
        last = self.to or today
        first = self.from_ or min(today, last).replace(day=1)
        if first > last:
            raise wrong("from", f"from ({first}) is after to ({last}).", "Exchange them: `from` is the first day.")
        return first, last


def beginning(day: date) -> dict[str, Any]:
    return {"from": day}  # a keyword of Python's, so it cannot be written as an argument


def wrong(parameter: str, detail: str, what_next: str) -> ProblemError:
    error = FieldError(where=f"query.{parameter}", message=detail)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, what_next, [error])
