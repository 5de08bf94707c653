"""Dead queued resources of TPUs are named for the quota that they hold; disks of TPU nodes are not loose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.conftest import Connect, Waits
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.gce.client import ComputeCloud
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.model.money import Money
from costguard.model.observation import LooseKind, LooseListing
from costguard.spend.loose.memory import LooseAnswer
from costguard.spend.loose.report import report_of
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
ZONE = "us-central1-a"
_SPEC: dict[str, Any] = {
    "tpu": {
        "nodeSpec": [
            {
                "node": {"acceleratorType": "v5p-16", "labels": {"owner": "ana"}},
                "multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "big"},
            }
        ]
    }
}


@contextmanager
def _listed(world: World) -> Iterator[Callable[[], LooseListing]]:
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=Waits(), tpu_nodes=True)) as cloud:
        yield lambda: cloud.loose("demo")


def _world() -> World:
    world = World(ManualClock(START))
    world.tpus.enabled.add("demo")
    return world


def test_a_failed_request_is_named_with_its_quota_its_owner_and_its_command() -> None:
    """It is in no amount, since nothing is billed; what waits or runs is not named."""
    world = _world()
    world.tpus.queue("demo", ZONE, "dead", {**_SPEC, "spot": {}}, "FAILED")
    world.tpus.queue(
        "demo", ZONE, "lively", {"tpu": {"nodeSpec": [{"nodeId": "n", "node": {"acceleratorType": "v6e-4"}}]}}
    )
    world.advance(timedelta(hours=1))
    world.tpus.queue("demo", ZONE, "waiting", _SPEC)
    with _listed(world) as loose:
        answer = LooseAnswer("demo", START, loose(), START)
    report = report_of(["demo"], [answer], OwnerRules(domain="example.com"), PriceBook(()), START)
    (item,) = report.items
    assert item.thing.what == (
        "queued resource, failed (There is no more capacity in the zone): holds the Spot quota of 16 v5p TPU chips"
    )
    assert item.command == f"gcloud compute tpus queued-resources delete dead --zone={ZONE} --project=demo"
    assert (item.owner, item.since, item.monthly) == ("ana@example.com", START, Money(0))
    assert (report.unpriced, report.unread) == (0, [])


def test_a_request_whose_node_was_preempted_is_suspended_and_named() -> None:
    """Nothing of it is left but the quota that it holds."""
    world = _world()
    spec = {"tpu": {"nodeSpec": [{"nodeId": "n", "node": {"acceleratorType": "v6e-8"}}]}}
    world.tpus.queue("demo", ZONE, "once", spec)
    world.advance(timedelta(hours=1))
    world.tpus.preempt(world.tpus.ever[0])
    with _listed(world) as loose:
        (thing,) = loose().things
        world.tpus.drop(world.tpus.queued_resource("demo", ZONE, "once"), force=False)
        assert loose().things == ()
    assert thing.what == "queued resource, suspended: holds the quota of 8 v6e TPU chips"


def test_a_data_disk_of_a_node_is_not_loose(connect: Connect) -> None:
    """No VM of the project has it, and the node does."""
    disks = [
        {"name": name, "sizeGb": "10", "type": "pd-ssd", "creationTimestamp": "2026-11-01T00:00:00Z"} for name in "ab"
    ]

    def answer(request: Asked) -> Answer:
        if request.path.endswith("/nodes"):
            return json_answer({"nodes": [{"dataDisks": [{"sourceDisk": f"projects/demo/zones/{ZONE}/disks/a"}]}]})
        if request.path.endswith("/disks"):
            items = {f"zones/{ZONE}": {"disks": disks}}
            return json_answer({"kind": "compute#diskAggregatedList", "items": items})
        return json_answer({})

    listing = connect(answer, tpu_nodes=True).cloud.loose("demo")
    assert [thing.name for thing in listing.things] == ["b"]


@pytest.mark.parametrize("without", ["api", "permission"])
def test_what_cannot_be_read_is_unknown_and_a_project_without_the_api_has_none(connect: Connect, without: str) -> None:
    """The permission is that of nodes: Google's index has none of queued resources."""

    def answer(request: Asked) -> Answer:
        if "/locations/" in request.path:
            return google_error(403, "accessNotConfigured" if without == "api" else "forbidden")
        return json_answer({})

    setup = connect(answer, tpu_nodes=True)
    unread = [one for one in setup.cloud.loose("demo").unread if one.kind is LooseKind.QUEUED_RESOURCE]
    assert [one.permission for one in unread] == ([] if without == "api" else ["tpu.nodes.list"])


@pytest.mark.parametrize(
    "garbled", [7, {}, {"name": "a"}, {"name": "projects/p/locations/z/queuedResources/q", "state": 1}]
)
def test_a_queued_resource_that_makes_no_sense_is_said(connect: Connect, garbled: Any) -> None:
    """It takes no other with it."""
    good = {
        "name": f"projects/demo/locations/{ZONE}/queuedResources/good",
        "createTime": "2026-11-01T00:00:00Z",
        "state": {"state": "SUSPENDED"},
    }

    def answer(request: Asked) -> Answer:
        return json_answer({"queuedResources": [garbled, good]} if request.path.endswith("/queuedResources") else {})

    listing = connect(answer, tpu_nodes=True).cloud.loose("demo")
    assert [thing.name for thing in listing.things] == ["good"]
    assert listing.things[0].what == "queued resource, suspended: holds the quota of its TPUs"
    assert LooseKind.QUEUED_RESOURCE in {one.kind for one in listing.unread}
