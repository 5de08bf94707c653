"""Types of fields and parameters: exact dollars, UTC times, spans in seconds, and texts that a database can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from costguard.model.budget import LABEL_FILTER, LabelFilter
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import z_text
from costguard.model.money import Money, Priced
from costguard.web.problems import FieldError, ProblemError

CURRENCY = "USD"
_SECOND = timedelta(seconds=1)


class Out(BaseModel):
    """A response, read from the attributes of a result: nothing is coerced, and every part is always present."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        from_attributes=True,
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def read(cls, result: object, **more: Any) -> Self:
        """Reads the attributes of a result, and parts that it does not have under the names of fields."""
        return cls.model_validate(_Extended(result, more) if more else result)


class _Extended:
    """A result with further attributes."""

    def __init__(self, result: object, more: dict[str, Any]) -> None:
        self._result, self._more = result, more

    def __getattr__(self, name: str) -> Any:
        return self._more[name] if name in self._more else getattr(self._result, name)


def read_from(path: str, **described: Any) -> Any:
    """A field that is read from an attribute of another name, or of a part of the result: `instance.key.project`."""
    return Field(validation_alias=AliasPath(*path.split(".")), **described)


def usd(amount: Money) -> str:
    """Exact decimal dollars, with at least the cents: 0.35, 12.345678901."""
    sign = "-" if amount.nanos < 0 else ""
    whole, part = divmod(abs(amount.nanos), 1_000_000_000)
    digits = f"{part:09d}"
    return f"{sign}{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def hours(seconds: int) -> str:
    """Hours to four places, for people; the seconds are exact."""
    tenthousandths = (seconds * 10_000 + 1_800) // 3_600
    return f"{tenthousandths // 10_000}.{tenthousandths % 10_000:04d}"


Usd = Annotated[
    str,
    BeforeValidator(lambda amount: usd(amount) if isinstance(amount, Money) else amount),
    Field(
        pattern=r"^-?\d+\.\d{2,9}$",
        description="Exact decimal dollars, to the nano-dollar.",
        examples=["0.35", "12.345678901"],
    ),
]
PriceNote = Annotated[
    str | None,
    Field(
        description=(
            "The age of the prices behind these figures, where they came with Costguard: after 60 days they "
            "are an estimate. null: they were read from Google's catalogue."
        )
    ),
]
# Whole seconds, cut off.
Seconds = Annotated[int, BeforeValidator(lambda span: span // _SECOND if isinstance(span, timedelta) else span)]


def one_of(values: Iterable[str]) -> WithJsonSchema:
    """Describes, for the API document, a text in a response that is always one of these values."""
    return WithJsonSchema({"type": "string", "enum": [str(value) for value in values]})


Provisioning = Annotated[str, one_of(ProvisioningModel)]
Moment = Annotated[datetime, PlainSerializer(z_text, return_type=str, when_used="json")]


class Amount(Out):
    """An amount that is incomplete when part of it has no price. It is never zero because a price is missing."""

    amount: Usd | None = Field(description="The part that has a price; null when nothing has.")
    currency: str = Field(default=CURRENCY, description="ISO 4217.")
    complete: bool = Field(description="False: part of it has no price, so the amount is too low.")

    @model_validator(mode="before")
    @classmethod
    def _of_priced(cls, value: object) -> object:
        if not isinstance(value, Priced):
            return value
        return {"amount": value.amount if value.whole or value.amount else None, "complete": value.whole}


class AsOf(Out):
    """A response that holds for a moment."""

    as_of: Moment


class AmountsAsOf(AsOf):
    """A response that holds for a moment, with amounts of money."""

    currency: str = CURRENCY


class Body(BaseModel):
    """A request body. Unknown parts are errors, and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(BaseModel):
    """The parameters of a request. An unknown one is an error, not a filter that does nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _sensible_day(day: date) -> date:
    if not 2000 <= day.year <= 2999:
        raise ValueError("a day between 2000 and 2999")
    return day


def _sensible_moment(moment: datetime) -> datetime:
    if not 2000 <= moment.year <= 2999:
        raise ValueError("a time between 2000 and 2999")
    return moment.astimezone(UTC)


Address = Annotated[
    str,
    StringConstraints(max_length=320, to_lower=True, pattern=r"^[^\s@<>\x00]+@[^\s@<>\x00]+$"),
    Field(examples=["ana@example.com"]),
]
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)")


def _rfc3339(value: object) -> object:
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("a time in the format of RFC 3339, such as 2026-11-22T08:00:00Z")
    return value


def _label_text(text: str) -> str:
    """Raises ValueError where it cannot be parsed."""
    LabelFilter.parse(text)
    return text


# PostgreSQL holds no NUL in a text.
Text = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")]
Texts = Annotated[list[Text], Field(max_length=100)]
LabelText = Annotated[
    str,
    StringConstraints(pattern=LABEL_FILTER),
    AfterValidator(_label_text),
    Field(
        description="Selects VMs while they had this label and value: `experiment:a`. `experiment:` is the empty "
        "value, and `!experiment` selects VMs without the label.",
        examples=["experiment:a"],
    ),
]
LabelOut = Annotated[str | None, BeforeValidator(lambda label: None if label is None else str(label))]
Day = Annotated[date, AfterValidator(_sensible_day)]
When = Annotated[AwareDatetime, AfterValidator(_sensible_moment)]
BodyMoment = Annotated[When, BeforeValidator(_rfc3339)]  # where a number would otherwise pass for a time


class DaysQuery(Query):
    """A range of UTC days."""

    from_: Day | None = Field(None, alias="from", description="The first UTC day; default: the first of the month.")
    to: Day | None = Field(None, description="The last UTC day; default: today.")

    def days(self, today: date) -> tuple[date, date]:
        """The first and the last. Raises a 422 problem where the last is before the first."""
        last = self.to or today
        first = self.from_ or min(today, last).replace(day=1)
        if first > last:
            detail = f"from ({first}) is after to ({last})."
            raise wrong_parameter("from", detail, "Swap them: `from` is the first day.")
        return first, last


def beginning(day: date) -> dict[str, Any]:
    return {"from": day}  # a keyword of Python's, so it cannot be written as an argument


def label_filter(text: str | None) -> LabelFilter | None:
    """Parses a parameter that is a LabelText."""
    return None if text is None else LabelFilter.parse(text)


def wrong_parameter(name: str, detail: str, what_next: str, message: str = "") -> ProblemError:
    error = FieldError(where=f"query.{name}", message=message or detail)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, what_next, [error])
