"""Experiment trackers, built from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from costguard import __version__
from costguard.db.transaction import Database
from costguard.model.delivery.tracker import Tracker
from costguard.model.ports import Clock
from costguard.settings import Settings
from costguard.trackers.delivery import TrackerClient, Trackers
from costguard.trackers.mlflow import MlflowClient
from costguard.trackers.wandb import WandbClient


@contextmanager
def trackers(
    settings: Settings,
    database: Database,
    clock: Clock,
    count: Callable[[str, str], None] = lambda _name, _outcome: None,
) -> Iterator[Trackers]:
    """`count` is called with the outcome of each request to a tracker."""
    clients: dict[Tracker, TrackerClient] = {}
    if (mlflow := settings.trackers.mlflow) is not None:
        clients[Tracker.MLFLOW] = MlflowClient(
            mlflow.url, __version__, mlflow.user or "", mlflow.token.get_secret_value()
        )
    if (wandb := settings.trackers.wandb) is not None:
        clients[Tracker.WANDB] = WandbClient(wandb.url, __version__, wandb.api_key.get_secret_value())
    made = Trackers(database, clients, clock, count)
    try:
        yield made
    finally:
        made.close()
