"""Regions are asked in turn; what cannot be read is unknown, and never gone; stops are asked for once."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.gce.conftest import Waits
from tests.gce.vertex import (
    OTHER,
    PROJECT,
    REGION,
    START,
    T4,
    Calls,
    Watched,
    job,
    raw_job,
    seen_of,
    watched,
)

from costguard.errors import CloudError, CloudUnavailable, PermissionDenied
from costguard.gce.client import ComputeCloud
from costguard.gce.errors import NoAnswer
from costguard.gce.vertex.look import REGIONS, VertexRegions, regions_to_watch
from costguard.gce.vertex.resources import LISTS
from costguard.keepers.reading import keeper_of
from costguard.model.instance import InstanceKey, Status
from costguard.model.observation import VERTEX, Presence, scopes_of, vertex_scope
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.server import running
from costguard_sandbox.world import World

__all__ = ["watched"]


def test_a_project_without_anything_costs_one_request_a_minute_and_region(watched: Watched) -> None:
    """Each list has its turn, however often the project is looked at."""
    for _ in range(36):
        watched.world.advance(timedelta(seconds=20))
        watched.cloud.observe(PROJECT, None)
    for region in (REGION, OTHER):
        lists = [path.rpartition("/")[2] for path in watched.asked if f"/{region}/" in path]
        assert lists == [one.collection for one in LISTS] * 2


def test_regions_that_nobody_named_are_learnt() -> None:
    """All of Google's are looked at; one where nothing has ever been is asked every five minutes once all was read."""
    clock, calls = ManualClock(START), Calls()
    world = World(clock)
    world.vertex.enabled.add(PROJECT)
    regions = regions_to_watch((), is_watched=True)
    assert regions == VertexRegions(REGIONS, are_learnt=True)
    learning = VertexRegions((REGION, OTHER), are_learnt=True)
    world.vertex.runtime(PROJECT, OTHER, "notes", "ben@example.com", T4)
    with (
        running(world) as url,
        closing(
            ComputeCloud(
                url, clock, wait=Waits(), monotonic=lambda: clock.now().timestamp(), adapter=calls
            ).watch_vertex(learning)
        ) as cloud,
    ):
        for _ in range(60):
            world.advance(timedelta(minutes=1))
            cloud.observe(PROJECT, None)
    empty = [path for path in calls.paths if f"/{REGION}/" in path]
    used = [path for path in calls.paths if f"/{OTHER}/" in path]
    assert len(empty) == len(LISTS) + (60 - len(LISTS)) // 5
    assert len(used) > 100  # the list of runtimes at each look, and another a minute


def test_a_project_without_the_api_has_none_and_is_asked_again_after_ten_minutes(watched: Watched) -> None:
    """Nothing is said of it: most projects do not use it."""
    watched.world.vertex.enabled.clear()
    for _ in range(20):
        assert watched.look().unread == ()
    assert len(watched.asked) == 2


def test_a_region_that_fails_leaves_the_others_as_they_are(watched: Watched) -> None:
    """The resources there are unknown, and said to be; those elsewhere are seen."""
    vertex = watched.world.vertex
    vertex.custom_job(PROJECT, REGION, "here", job((T4, 1)))
    vertex.custom_job(PROJECT, OTHER, "there", job((T4, 1)))
    watched.look(minutes=20)
    vertex.refusing.add(OTHER)
    observation = watched.look()
    assert seen_of(observation).keys() == {"here"}
    (unread,) = observation.unread
    assert unread.scope == vertex_scope(OTHER)
    assert "What of Vertex AI runs in europe-west4 of demo is not known." in unread.reason
    (there,) = (one for one in vertex.ever if one.region == OTHER)
    key = InstanceKey(PROJECT, f"vertex.customJobs.{OTHER}.{there.id}")
    assert unread.scope in scopes_of(key, OTHER)
    assert watched.cloud.presence(key, OTHER, "there") is Presence.NOT_KNOWN


def test_losing_the_api_or_the_right_is_said_once_and_takes_nothing_away(watched: Watched) -> None:
    """The project has one line, and not one for each region."""
    watched.world.vertex.custom_job(PROJECT, REGION, "here", job((T4, 1)))
    watched.look(minutes=20)
    watched.world.vertex.enabled.clear()
    (unread,) = watched.look().unread
    assert unread.scope == VERTEX
    assert "aiplatform.googleapis.com" in unread.reason


def _id(thing: ManagedThing) -> InstanceKey:
    parts = filter(None, ("vertex", thing.collection, thing.region, thing.id, thing.part))
    return InstanceKey(PROJECT, ".".join(parts))


def test_only_what_google_says_is_over_is_gone(watched: Watched) -> None:
    """A 404 alone proves nothing: the list that the resource would be in has to answer."""
    vertex = watched.world.vertex
    one = vertex.custom_job(PROJECT, REGION, "job", job((T4, 1)))
    model = vertex.deploy(PROJECT, REGION, "chat", "llama", T4)
    pool = vertex.persistent_resource(PROJECT, REGION, "pool", {"machineSpec": T4, "replicaCount": "1"})
    watched.world.advance(timedelta(minutes=20))

    def presences() -> list[Presence]:
        return [watched.cloud.presence(_id(thing), REGION, "any") for thing in (one, model, pool)]

    assert presences() == [Presence.THERE] * 3
    vertex.ask(PROJECT, REGION, "customJobs", one.id, "cancel", {})
    vertex.ask(PROJECT, REGION, "endpoints", model.id, "undeployModel", {"deployedModelId": model.part})
    vertex.ask(PROJECT, REGION, "persistentResources", pool.id, "delete", {})
    watched.world.advance(timedelta(minutes=20))
    watched.world.faults.add("server_error", code=404, path="/persistentResources")
    assert presences() == [Presence.GONE, Presence.GONE, Presence.NOT_KNOWN]
    watched.world.faults.clear(None)
    assert presences()[2] is Presence.GONE


def test_each_kind_is_stopped_by_its_own_request_and_its_end_is_read(watched: Watched) -> None:
    """A job is cancelled, a runtime stopped, a model undeployed; a second request is not made."""
    vertex = watched.world.vertex
    things = (
        vertex.custom_job(PROJECT, REGION, "job", job((T4, 1))),
        vertex.runtime(PROJECT, REGION, "notes", "ben@example.com", T4),
        vertex.deploy(PROJECT, REGION, "chat", "llama", T4),
    )
    watched.world.advance(timedelta(minutes=20))
    seen = {one.key: one for one in watched.all_lists().instances}
    for thing in things:
        one = seen[_id(thing)]
        sighting = watched.cloud.look_at_resource(one.key)
        assert sighting is not None
        assert (sighting.gce_id, sighting.status, sighting.origin) == (one.key.gce_id, Status.RUNNING, one.origin)
        keeper = keeper_of(one.labels, one.origin, one.zone)
        assert keeper is not None
        address = (PROJECT, REGION, one.name)
        operation = watched.cloud.stop_kept(keeper, address, one.key.gce_id, "request")
        progress = watched.cloud.kept_operation(keeper, address, operation)
        assert progress is not None
        assert not progress.is_done
        watched.world.advance(timedelta(minutes=5))
        progress = watched.cloud.kept_operation(keeper, address, operation)
        assert progress is not None
        assert progress.is_done
        assert thing.runs[-1].ended is not None
        with pytest.raises(NoAnswer):
            watched.cloud.stop_kept(keeper, address, one.key.gce_id, "request")
        with pytest.raises(CloudError, match="so Costguard does not stop it"):
            watched.cloud.stop_kept(keeper, address, "vertex.customJobs.us-central1.1", "request")


@pytest.mark.parametrize("refused", [403, 503])
def test_a_stop_that_is_refused_says_what_a_person_does(watched: Watched, refused: int) -> None:
    """A 403 names the command; a 503 may have begun."""
    watched.world.vertex.custom_job(PROJECT, REGION, "job", job((T4, 1)))
    (one,) = watched.look(minutes=20).instances
    keeper = keeper_of(one.labels, one.origin, one.zone)
    assert keeper is not None
    watched.world.faults.add("server_error", code=refused, path=":cancel")
    expected = PermissionDenied if refused == 403 else CloudUnavailable
    with pytest.raises(expected) as caught:
        watched.cloud.stop_kept(keeper, (PROJECT, REGION, one.name), one.key.gce_id, "request")
    if refused == 403:
        assert "gcloud ai custom-jobs cancel" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        {},
        {"name": "x"},
        raw_job(job((T4, 1)), createTime="yesterday"),
        raw_job({"workerPoolSpecs": [{"machineSpec": T4, "replicaCount": "-1"}]}),
        raw_job({"workerPoolSpecs": 5}),
        raw_job(job((T4, 1)), name="projects/1/locations/x/customJobs/a b"),
    ],
    ids=["null", "number", "empty", "name", "time", "count", "pools", "id"],
)
def test_a_member_that_makes_no_sense_harms_no_other(watched: Watched, raw: Any) -> None:
    """It is said, and the others are read."""
    watched.world.vertex.custom_job(PROJECT, REGION, "good", job((T4, 1)))
    watched.world.advance(timedelta(minutes=20))
    held = next(watched.world.vertex.listed(PROJECT, REGION, "customJobs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched.world.vertex, "listed", lambda *_: iter([raw, held]))
        patch.setattr("costguard_sandbox.gce.routes.vertex.matching", lambda _: lambda _: True)
        observation = watched.look()
    assert "good" in seen_of(observation)
    assert {part.scope for part in observation.unread} == {vertex_scope(REGION), vertex_scope(OTHER)}
