"""What the sections are made of: the strict base and the kinds of values that several of them hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from costguard.settings import values, values_reminders


def between(low: timedelta, high: timedelta) -> AfterValidator:
    def check(span: timedelta | None) -> timedelta | None:
        """`never`, where a key takes that, is no span."""
        if span is not None and not low <= span <= high:
            raise ValueError(f"a time from {values.show_duration(low)} to {values.show_duration(high)}")
        return span

    return AfterValidator(check)


def listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Listed = BeforeValidator(listed)
Duration = Annotated[timedelta, BeforeValidator(values.duration)]
DurationOrNever = Annotated[timedelta | None, BeforeValidator(values.duration_or_never)]
ProjectId = Annotated[str, AfterValidator(values.project_id)]
Name = Annotated[str, AfterValidator(values.name)]
LabelKey = Annotated[str, AfterValidator(values.label_key)]
LabelValue = Annotated[str, AfterValidator(values.label_value)]
MailAddress = Annotated[str, AfterValidator(values.mail_address)]
LowerAddress = Annotated[str, AfterValidator(values_reminders.lower_address)]
AddressOrDomain = Annotated[str, AfterValidator(values_reminders.address_or_domain)]
Channel = Annotated[str, AfterValidator(values_reminders.channel)]
GpuType = Annotated[str, AfterValidator(values.gpu_type)]
Network = Annotated[str, AfterValidator(values.network)]
Percents = Annotated[tuple[int, ...], BeforeValidator(values.percents)]
Endpoint = Annotated[str, AfterValidator(values.endpoint)]
Percent = Annotated[int, Field(ge=1, le=100)]


class Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)
