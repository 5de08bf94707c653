"""Many Spot VMs are preempted at once, by a call or by a scenario."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, START, ZONE, body, new_world, up

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.scenarios.keys import ScenarioError
from costguard_sandbox.scenarios.scenario import build, read
from costguard_sandbox.server import running
from costguard_sandbox.world import World


def fleet() -> World:
    """Spot VMs in two zones of a region, one elsewhere, one of another project, and one that is no Spot VM."""
    world = new_world()
    up(world, "a-1", **SPOT, labels={"job": "one"})
    up(world, "c-1", zone="us-central1-c", **SPOT)
    up(world, "far", zone="europe-west4-a", **SPOT)
    up(world, "standard")
    world.insert("acme-research", ZONE, body("other", **SPOT))
    return world


def preempted(world: World) -> set[str]:
    operations = [one for project in world.projects for one in world.operations.of(project)]
    return {one.target_link.rpartition("/")[2] for one in operations if one.kind == "compute.instances.preempted"}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, {"a-1", "c-1", "far", "other"}),
        ({"region": "us-central1"}, {"a-1", "c-1", "other"}),
        ({"region": "us-central1", "project": PROJECT}, {"a-1", "c-1"}),
        ({"zone": ZONE}, {"a-1", "other"}),
        ({"filter": "labels.job:*"}, {"a-1"}),
        ({"up_for": 60}, {"a-1", "c-1", "far"}),
        ({"zone": "us-east1-b"}, set()),
    ],
)
def test_one_call_preempts_a_region_or_a_filter(wanted: dict[str, Any], names: set[str]) -> None:
    """Spot VMs alone, those that still come up among them; the answer names each with its operation."""
    world = fleet()
    with running(world) as url:
        answer = requests.post(f"{url}/sandbox/preempt", json=wanted, timeout=30)
        again = requests.post(f"{url}/sandbox/preempt", json=wanted, timeout=30)
    assert answer.status_code == 200
    assert {one["name"] for one in answer.json()["preempted"]} == names == preempted(world)
    assert all(one["operation"].startswith("systemevent-") for one in answer.json()["preempted"])
    assert again.json() == {"preempted": []}


def test_a_notice_comes_first_where_one_is_given() -> None:
    """No operation yet, and the metadata say so; a VM that is not up yet has nobody to hear of it."""
    world = fleet()
    with running(world) as url:
        answer = requests.post(f"{url}/sandbox/preempt", json={"zone": ZONE, "notice": 120}, timeout=30)
    assert {one["name"]: one["operation"] is None for one in answer.json()["preempted"]} == {
        "a-1": True,
        "other": False,
    }
    assert preempted(world) == {"other"}
    assert world.instance(PROJECT, "a-1").is_preempted
    world.advance(2 * MINUTE)
    assert preempted(world) == {"a-1", "other"}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"colour": "red"}, "'colour' is unknown"),
        ({"filter": "status ="}, "filter"),
        ({"notice": "soon"}, "notice must be seconds"),
        ({"zone": 7}, "zone"),
    ],
)
def test_invalid_reclaims_are_refused(wanted: dict[str, Any], text: str) -> None:
    """Nothing would be preempted otherwise, and nobody would know why."""
    world = fleet()
    with running(world) as url:
        answer = requests.post(f"{url}/sandbox/preempt", json=wanted, timeout=30)
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]
    assert preempted(world) == set()


def test_an_event_of_one_vm_can_have_a_notice() -> None:
    """It is announced, and happens when the notice is over."""
    world = fleet()
    event = {"event": "preempt", "project": PROJECT, "name": "far", "notice": 30}
    with running(world) as url:
        answer = requests.post(f"{url}/sandbox/events", json=event, timeout=30).json()
    assert answer == {"project": PROJECT, "name": "far", "announced": "preempt"}
    world.advance(timedelta(seconds=30))
    assert preempted(world) == {"far"}


_RECLAIM = """
projects = ["acme-training"]
[[event]]
at = "10m"
do = "reclaim"
filter = "labels.job:*"
up_for = "2m"
within = "1h"
"""


def test_a_scenario_reclaims_vms_by_filter() -> None:
    """The reclaim comes within the time that it gives, as soon as a VM has been up for long enough; then not again."""
    world = build(read(_RECLAIM, Path("test.toml")), ManualClock(START))
    world.advance(15 * MINUTE)
    up(world, "job-1", **SPOT, labels={"job": "one"})
    assert preempted(world) == set()
    world.advance(2 * MINUTE)
    assert preempted(world) == {"job-1"}
    up(world, "job-2", **SPOT, labels={"job": "one"})
    world.advance(30 * MINUTE)
    assert preempted(world) == {"job-1"}


def test_an_invalid_filter_in_a_scenario_is_refused() -> None:
    """The refusal comes before it is played."""
    with pytest.raises(ScenarioError, match=r"event\[1\].filter: expected a filter of the Compute API"):
        read(_RECLAIM.replace("labels.job:*", "labels.job ="), Path("test.toml"))


def test_a_scenario_says_whether_its_vms_run_as_processes() -> None:
    """Off by default and where `run` is false; the settings are kept for the option that turns it on."""
    text = 'projects = ["acme-training"]\n[local_vms]\nrun = true\nfolder = "/tmp/vms"\npreemption_grace = "5s"\n'
    text += 'docker = "shim"\n'
    scenario = read(text, Path("test.toml"))
    settings = scenario.local_vms
    assert scenario.runs_vms
    assert settings is not None
    assert (settings.folder, settings.preemption_grace, settings.docker) == (
        Path("/tmp/vms"),
        timedelta(seconds=5),
        "shim",
    )
    assert (settings.boot, settings.stop_grace) == (timedelta(seconds=2), timedelta(seconds=90))
    off = read(text.replace("run = true", "run = false"), Path("test.toml"))
    assert (off.runs_vms, off.local_vms) == (False, settings)
    assert not read('projects = ["acme-training"]\n', Path("test.toml")).runs_vms
    with pytest.raises(ScenarioError, match=r"local_vms.docker: expected one of auto, shim, host"):
        read(text.replace("shim", "podman"), Path("test.toml"))
