"""Forgotten resources of Vertex AI get their reminder in Slack, and its button gives the machines back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from tests.scenario.slack_story import HOUR, MINUTE, PROJECT, Story, buttons, shown, story

from costguard.db.tables import lifetimes, utilisation
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.gce.vertex.resources import Vertex
from costguard_sandbox.gce.vm import Load

REGION = "us-central1"
T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
POOL = {"machineSpec": T4, "replicaCount": "1"}
THROUGH = {"shadow": False, "stop_through": ["vertex"]}
LONG: dict[str, Any] = {"t4": {"limit": "48h", "remind_every": "4h", "idle": {"window": "2h"}}}
UNMEASURED = "its use is not known: Colab Enterprise has no metric of it; "
DAY_LIMIT: dict[str, Any] = {"t4": {"limit": "8h", "remind_every": "4h"}}


def _job(vertex: Vertex) -> ManagedThing:
    return vertex.custom_job(PROJECT, REGION, "train", {"workerPoolSpecs": [POOL]})


def _model(vertex: Vertex) -> ManagedThing:
    return vertex.deploy(PROJECT, REGION, "chat", "llama", T4)


def _runtime(vertex: Vertex) -> ManagedThing:
    return vertex.runtime(PROJECT, REGION, "notes", "ana@example.com", T4)


def _persistent(vertex: Vertex) -> ManagedThing:
    return vertex.persistent_resource(PROJECT, REGION, "warm", POOL)


@contextmanager
def _forgotten(
    url: str, make: Callable[[Vertex], ManagedThing], enforcement: dict[str, Any]
) -> Iterator[tuple[Story, ManagedThing]]:
    """A team of which Ana has left something running for longer than its limit."""
    watch = {"vertex_regions": [REGION]}
    with story(url, watch=watch, enforcement=enforcement, presets=DAY_LIMIT) as team:
        team.world.vertex.enabled.add(PROJECT)
        thing = make(team.world.vertex)
        thing.shown["labels"] = {"owner": "ana"}
        team.later(10 * MINUTE)
        team.later(8 * HOUR)
        yield team, thing


@pytest.mark.parametrize(
    ("make", "kind", "effect"),
    [
        (_job, "custom job", "cancelled, for good"),
        (_model, "deployed model", "undeployed from its endpoint"),
        (_runtime, "Colab Enterprise runtime", "its disks stay and are billed"),
    ],
    ids=["job", "model", "runtime"],
)
def test_its_owner_is_asked_and_stops_it(
    sqlite_url: str, make: Callable[[Vertex], ManagedThing], kind: str, effect: str
) -> None:
    """The message says what it is, the button what its stop does, and then what it cost."""
    with _forgotten(sqlite_url, make, THROUGH) as (team, thing):
        reminder = team.only()
        assert f"Costguard counts this {kind} as yours." in shown(reminder)
        assert "VM" not in shown(reminder)
        assert buttons(reminder)["stop"] == "Stop now"
        assert effect in str(reminder.blocks)
        team.press(reminder, "stop")
        team.later(10 * MINUTE, every=timedelta(minutes=2))
        assert buttons(reminder) == {}
        assert "It was stopped after 8 h" in shown(reminder)
        assert "as requested by ana@example.com; that run cost" in shown(reminder)
        with team.guard.database.read() as connection:
            life = connection.execute(select(lifetimes)).one()
        assert (life.ended_at, life.end_is_estimate) == (thing.runs[-1].ended, False)


def test_what_has_no_stop_is_reminded_of_with_its_command(sqlite_url: str) -> None:
    """A persistent resource can only be deleted, which is left to a person."""
    with _forgotten(sqlite_url, _persistent, THROUGH) as (team, thing):
        reminder = team.only()
        assert "Costguard counts this persistent resource as yours." in shown(reminder)
        assert "stop" not in buttons(reminder)
        assert f"gcloud ai persistent-resources delete warm --region {REGION} --project {PROJECT}" in shown(reminder)
        assert thing.runs[-1].ended is None


def test_without_the_setting_the_command_is_shown_instead_of_the_button(sqlite_url: str) -> None:
    """Nothing of Vertex AI is stopped where `stop_through` does not name it."""
    with _forgotten(sqlite_url, _job, {"shadow": False}) as (team, thing):
        reminder = team.only()
        assert "stop" not in buttons(reminder)
        assert "gcloud ai custom-jobs cancel" in shown(reminder)
        assert thing.runs[-1].ended is None


def test_a_deployed_model_without_requests_is_reminded_of_as_idle(sqlite_url: str) -> None:
    """The message says what shows it; a model that answers requests, and a runtime that nothing measures, are left."""
    watch, idle = {"vertex_regions": [REGION]}, {"enabled": True}
    with story(sqlite_url, watch=watch, enforcement=THROUGH, idle=idle, presets=LONG) as team:
        vertex = team.world.vertex
        vertex.enabled.add(PROJECT)
        forgotten, used, notes = _model(vertex), vertex.deploy(PROJECT, REGION, "live", "mistral", T4), _runtime(vertex)
        forgotten.loads.append((team.now, Load.IDLE))
        for thing in (forgotten, used, notes):
            thing.shown["labels"] = {"owner": "ana"}
        team.later(5 * HOUR, every=HOUR / 2)
        reminder = team.only()
        assert "llama" in shown(reminder)
        assert "no request, and GPU under 5 %" in shown(reminder)
        team.press(reminder, "stop")
        team.later(10 * MINUTE, every=timedelta(minutes=2))
        assert forgotten.runs[-1].ended is not None
        assert used.runs[-1].ended is None
        with team.guard.database.read() as connection:
            said = connection.execute(select(utilisation.c.state, utilisation.c.sentence)).all()
        assert ("unknown", f"{UNMEASURED}whether Colab stops it without activity is not known") in {
            tuple(one) for one in said
        }
