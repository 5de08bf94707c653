"""Words that sentences about jobs share."""

from __future__ import annotations

from costguard.model.attempt import Attempt
from costguard.model.money import Money, rate_text


def place_of(attempt: Attempt) -> str:
    """`us-central1-a (Spot)`."""
    return f"{attempt.zone} ({attempt.provisioning_model.in_words})"


def an_hour(rate: Money | None) -> str:
    return f"{rate_text(rate)} an hour" if rate is not None else "a price that is not known"
