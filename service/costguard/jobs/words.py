"""Words that sentences about jobs share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from costguard.model.attempt import Attempt
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import moment_text, zone_of
from costguard.model.money import Money

_UTC = zone_of("UTC")


def clock(moment: datetime, now: datetime) -> str:
    """`14:05 UTC`, with its day unless that is today."""
    if moment.astimezone(_UTC).date() == now.astimezone(_UTC).date():
        return moment.astimezone(_UTC).strftime("%H:%M %Z")
    return moment_text(moment, _UTC, now)


def model_word(model: ProvisioningModel) -> str:
    return model.in_words


def place_of(attempt: Attempt) -> str:
    """`us-central1-a (Spot)`."""
    return f"{attempt.zone} ({model_word(attempt.provisioning_model)})"


def an_hour(rate: Money | None) -> str:
    return f"{rate} an hour" if rate is not None else "a price that is not known"


def count(number: int, one: str, many: str = "") -> str:
    """`1 zone`, `3 zones`."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def span(length: timedelta) -> str:
    """`45 s`, `10 min`, `2 h 30 min`, `3 d 4 h`."""
    seconds = int(length.total_seconds())
    if seconds < 60:
        return f"{max(seconds, 0)} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86400
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else "", f"{minutes} min" if minutes else ""]
    return " ".join([part for part in parts if part][:2])


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))
