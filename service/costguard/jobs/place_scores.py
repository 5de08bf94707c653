"""How zones did lately, as the choice of a place sees them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.jobs import attempts
from costguard.jobs.placement import REMEMBERED, PlaceEvent, Score, Where, scores
from costguard.jobs.recipe import models_of
from costguard.model.attempt import Outcome

_COUNTED = frozenset({Outcome.STOCKOUT, Outcome.PREEMPTED})
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class PlaceScore:
    """`where` is zone, GPU type and model; `events` are what the score rests on, the newest first, ten at most."""

    where: Where
    score: Score
    presets: tuple[str, ...]
    events: tuple[PlaceEvent, ...]


def place_scores(connection: Connection, rules: Rules, now: datetime) -> list[PlaceScore]:
    """Every place that a preset launches in, and every other where something happened; by GPU type and zone."""
    hour = now.replace(minute=0, second=0, microsecond=0)  # so that the same is asked for an hour
    history = [
        PlaceEvent(one.zone, one.gpu_type, one.provisioning_model, one.outcome, one.at)
        for one in attempts.recent(connection, hour - REMEMBERED)
        if one.outcome in _COUNTED and one.at >= now - REMEMBERED
    ]
    found = scores(history, now)
    events: dict[Where, list[PlaceEvent]] = defaultdict(list)
    for event in reversed(history):
        events[event.zone, event.gpu_type, event.provisioning_model].append(event)
    presets: dict[Where, list[str]] = defaultdict(list)
    for preset in rules.presets.values():
        if preset.launch is not None:
            for zone in preset.launch.zones:
                for model in models_of(preset.launch):
                    presets[zone, preset.launch.gpu_type, model].append(preset.name)
    return [
        PlaceScore(
            where, found.get(where, Score()), tuple(presets.get(where, ())), tuple(events.get(where, ())[:_SHOWN])
        )
        for where in sorted({*presets, *found}, key=lambda where: (where[1], where[0], where[2]))
    ]
