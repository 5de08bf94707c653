"""Experiment trackers: the run that a job names, and what is logged to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from costguard.model.money import Money


class Tracker(StrEnum):
    """The trackers that there are; the values are their sections under [trackers]."""

    MLFLOW = "mlflow"
    WANDB = "wandb"

    @property
    def in_words(self) -> str:
        return {"mlflow": "MLflow", "wandb": "W&B"}[self.value]


# As MLflow checks a run's id (`_RUN_ID_REGEX` in mlflow/utils/validation.py).
_MLFLOW_RUN = re.compile(r"[a-zA-Z0-9][A-Za-z0-9_-]{0,255}")
# As W&B's public client reads a run's path (`Api._parse_path` in wandb/apis/public/api.py): ENTITY/PROJECT/RUN.
_WANDB_RUN = re.compile(r"[A-Za-z0-9_-]{1,128}/[A-Za-z0-9_.-]{1,128}/[A-Za-z0-9_.-]{1,128}")


def is_mlflow_run(text: str) -> bool:
    return _MLFLOW_RUN.fullmatch(text) is not None


def is_wandb_run(text: str) -> bool:
    return _WANDB_RUN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class TrackerPoint:
    """A job's figures at one moment, as the ledger had them then.

    `step` is the furthest so far: a tracker shows the value at the highest step as the latest. `cost` is None where
    not all of it has a price.
    """

    at: datetime
    step: int | None
    cost: Money | None
    per_1000_steps: Money | None
    preemptions: int
    lost: timedelta
    lost_cost: Money
    is_tried: bool = False  # the tracker may have it already

    @property
    def metrics(self) -> dict[str, Decimal]:
        """Returns the figures by the names that a tracker shows. What is not known is left out."""
        figures: dict[str, Decimal | None] = {
            "cost_usd": None if self.cost is None else self.cost.dollars,
            "usd_per_1000_steps": None if self.per_1000_steps is None else self.per_1000_steps.dollars,
            "preemptions": Decimal(self.preemptions),
            "work_lost_seconds": Decimal(self.lost // timedelta(seconds=1)),
            "work_lost_usd": self.lost_cost.dollars,
        }
        return {name: value for name, value in figures.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A tracker's run that a job names, and how logging to it stands.

    `point_at` is when the newest point was made and `step` the furthest so far. `error` is of the last try, "" after
    one that went well; `tries` are the failed ones in a row. `refused_at`: since when the tracker does not take it.
    """

    id: int
    job_id: str
    tracker: Tracker
    run: str
    point_at: datetime | None = None
    step: int | None = None
    waiting: int = 0
    logged_at: datetime | None = None
    tries: int = 0
    error: str = ""
    refused_at: datetime | None = None
