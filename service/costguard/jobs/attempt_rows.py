"""From rows of attempts to the noun, and from its changes to columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from costguard.db.tables import attempts
from costguard.db.types import storable
from costguard.model.attempt import Attempt, AttemptState, Exit, Heard, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money

EXIT = TypeAdapter(Exit)

_TEXTS = frozenset({"machine", "output"})

# Of a thousand attempts their outputs alone are tens of megabytes.
WITHOUT_TEXTS = tuple(column for column in attempts.c if column.name not in _TEXTS)


# Thousands are read for a list, and calling an enum is slow.
_STATES = {state.value: state for state in AttemptState}
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_MODELS = {model.value: model for model in ProvisioningModel}


def attempt_of(row: Row[*tuple[Any, ...]], *, with_texts: bool = False) -> Attempt:
    """`with_texts` where the row has them."""
    return Attempt(
        id=row.id,
        job_id=row.job_id,
        number=row.number,
        name=row.name,
        project=row.project,
        zone=row.zone,
        provisioning_model=_MODELS[row.provisioning_model],
        request_uuid=row.request_uuid,
        max_run=timedelta(seconds=row.max_run_s),
        state=_STATES[row.state],
        intended_at=row.intended_at,
        generation=row.generation,
        rate=None if row.rate_nanos is None else Money(row.rate_nanos),
        resume_from=row.resume_from,
        resume_step=row.resume_step,
        resume_why=row.resume_why,
        image=row.image,
        outcome=None if row.outcome is None else _OUTCOMES[row.outcome],
        reason=row.reason,
        asked_at=row.asked_at,
        operation=row.operation,
        gce_id=row.gce_id,
        made_at=row.made_at,
        stop_asked_at=row.stop_asked_at,
        stop_why=row.stop_why,
        ended_at=row.ended_at,
        delete_asked_at=row.delete_asked_at,
        gone_at=row.gone_at,
        rested_at=row.rested_at,
        restarts=row.restarts,
        tries=row.tries,
        try_after=row.try_after,
        error=row.error,
        heard=_heard(row, with_texts),
    )


def columns_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt's fields as its columns take them."""
    columns: dict[str, Any] = {}
    for name, value in changes.items():
        match name, value:
            case "rate", _:
                columns["rate_nanos"] = value.nanos if isinstance(value, Money) else None
            case "max_run", timedelta():
                columns["max_run_s"] = value // timedelta(seconds=1)
            case _, StrEnum():
                columns[name] = value.value
            case _, str():
                columns[name] = storable(value)
            case _:
                columns[name] = value
    return columns


def _heard(row: Row[*tuple[Any, ...]], with_texts: bool) -> Heard:
    return Heard(
        at=row.heard_at,
        run=row.run,
        booted_at=row.booted_at,
        started_at=row.started_at,
        noticed_at=row.noticed_at,
        maintenance_at=row.maintenance_at,
        step=row.step,
        step_at=row.step_at,
        machine=row.machine if with_texts else {},
        output=row.output if with_texts else "",
        image_digest=row.image_digest,
        exit=None if row.exit is None else EXIT.validate_python(row.exit),
        accepted_through=row.accepted_through,
    )
