"""Lifetimes as the estimate of discounts takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Lifetime, RunsOfAShape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def runs_of(*lifetimes: Lifetime) -> list[RunsOfAShape]:
    """Those on demand."""
    return [
        RunsOfAShape(
            each.key.project,
            each.zone,
            each.shape,
            [(each.started_at - _EPOCH) // _MICROSECOND],
            [None if each.ended_at is None else (each.ended_at - _EPOCH) // _MICROSECOND],
        )
        for each in lifetimes
        if each.provisioning_model is ProvisioningModel.STANDARD
    ]
