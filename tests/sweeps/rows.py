"""Rows of sweeps for tests of other rooms."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection
from tests.api.rows import NOW

from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import Recipe
from costguard.model.sweep import Halving, Sweep, SweepState
from costguard.sweeps import sweep_rows
from costguard.sweeps.sweep_rows import NewMember

_RECIPE = Recipe("n1-standard-4", ("us-central1-a",), "projects/ml/global/images/family/common", timedelta(hours=24))


def added(connection: Connection, sweep_id: str, owner: str, state: SweepState = SweepState.RUNNING) -> Sweep:
    """A sweep of one member that is not launched yet."""
    sweep = Sweep(
        sweep_id, "", owner, "lab", "t4", 1, None, state, "why", NOW, "api", halving=Halving(3, "val_loss", "lower")
    )
    spec = JobSpec(JobKind.TRAINING, "t4", "lab", owner, command=("true",))
    sweep_rows.add(connection, sweep, [NewMember(1, {"lr": "1"}, spec, _RECIPE)], None, "")
    return sweep
