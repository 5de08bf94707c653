"""Types of fields and parameters: exact dollars, UTC times, texts that a database can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Annotated, Any

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
)

from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money, Priced

CURRENCY = "USD"


def usd(amount: Money) -> str:
    """Exact decimal dollars, with cents at least: 0.35, 12.345678901."""
    sign = "-" if amount.nanos < 0 else ""
    whole, part = divmod(abs(amount.nanos), 1_000_000_000)
    digits = f"{part:09d}"
    return f"{sign}{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def hours(seconds: int) -> str:
    """Hours to four places, for people; the seconds are exact."""
    tenthousandths = (seconds * 10_000 + 1_800) // 3_600
    return f"{tenthousandths // 10_000}.{tenthousandths % 10_000:04d}"


def _z(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Usd = Annotated[
    str,
    Field(
        pattern=r"^-?\d+\.\d{2,9}$",
        description="Exact decimal dollars, to the nano-dollar.",
        examples=["0.35", "12.345678901"],
    ),
]


def one_of(values: Iterable[str]) -> WithJsonSchema:
    """How the API document describes a text in an answer that is always one of these values."""
    return WithJsonSchema({"type": "string", "enum": [str(value) for value in values]})


Provisioning = Annotated[str, one_of(ProvisioningModel)]
Moment = Annotated[datetime, PlainSerializer(_z, return_type=str, when_used="json")]


class Out(BaseModel):
    """A response, read from the attributes of a result: nothing is coerced, and every part is always present."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        from_attributes=True,
        json_schema_serialization_defaults_required=True,
    )


def at(path: str, **described: Any) -> Any:
    """A field that is read from an attribute of another name, or of a part of the result: `instance.key.project`."""
    return Field(validation_alias=AliasPath(*path.split(".")), **described)


class Amount(Out):
    """An amount that may be less than all of it, when something in it has no price. Never zero for want of a price."""

    amount: Usd | None = Field(description="What could be priced; null when nothing could.")
    currency: str = Field(default=CURRENCY, description="ISO 4217.")
    complete: bool = Field(description="False: something in it has no price, so the amount is too low.")

    @classmethod
    def of(cls, priced: Priced) -> Amount:
        is_known = priced.whole or bool(priced.amount)
        return cls(amount=usd(priced.amount) if is_known else None, complete=priced.whole)


class Body(BaseModel):
    """What is sent. A misspelt part is an error, and nothing is converted by guess."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(BaseModel):
    """Parameters of a request. A misspelt one is an error, not a filter that does nothing."""

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
        raise ValueError("a time as RFC 3339 writes it, such as 2026-11-22T08:00:00Z")
    return value


# PostgreSQL holds no NUL in a text.
Text = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")]
Texts = Annotated[list[Text], Field(max_length=100)]
Day = Annotated[date, AfterValidator(_sensible_day)]
When = Annotated[AwareDatetime, AfterValidator(_sensible_moment)]
Told = Annotated[When, BeforeValidator(_rfc3339)]  # in a body, where a number would be taken for a time as well
