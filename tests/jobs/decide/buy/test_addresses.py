"""VMs of jobs get external addresses only where they need them, and the job says which and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.jobs.cloud import CloudOfVms
from tests.jobs.cloud_vms import Vm
from tests.jobs.job_service import JobSetup, priced
from tests.jobs.world import RECIPE, World, world

from costguard.db.transaction import Database
from costguard.errors import CloudUnavailable, PermissionDenied
from costguard.jobs.decide.buy.addresses import choice_of
from costguard.jobs.submit.submission import Submission
from costguard.jobs.submit.where.addresses import AddressFinder
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import AddressChoice, WayOut
from costguard.model.money import Money

NAT = WayOut("default of us-central1", "nat-1")
HAS_NAT = AddressChoice(False, "subnetwork default of us-central1 has Cloud NAT nat-1")
NO_NAT = AddressChoice(True, "subnetwork default of us-central1 has no Cloud NAT")
TRAINS = JobSpec(JobKind.TRAINING, "t4", "lab", "ada@lab.example", command=("train",))
NEAR = replace(RECIPE, zones=("us-central1-a",))


def has_address(vm: Vm) -> bool:
    return vm.request.recipe.external_address is not False


def launched(w: World, **given: Any) -> Vm:
    """Launches a job in us-central1-a, and returns its first VM."""
    w.submit(recipe=replace(NEAR, **given))
    w.until_up("cg-j1-1")
    return w.vm()


def test_behind_cloud_nat_a_vm_has_no_address(sqlite_url: str) -> None:
    """It costs that much less, and the attempt and the timeline say why."""
    with world(sqlite_url) as w:
        w.cloud.nats["us-central1"] = "nat-1"
        assert not has_address(launched(w))
        (attempt,) = w.attempts()
        bare = attempt.rate
        (event,) = w.events("AttemptLaunched")
    assert attempt.address == HAS_NAT
    assert "no external address: subnetwork default of us-central1 has Cloud NAT nat-1." in event.text
    with world(sqlite_url) as w:
        assert has_address(launched_again(w))
        second = w.attempts("j2")[0]
    assert second.address == NO_NAT
    assert bare is not None
    assert second.rate == bare + Money.of("0.0025")


def launched_again(w: World) -> Vm:
    w.outside.cloud.nats.clear()
    w.submit("j2", recipe=NEAR)
    w.until_up("cg-j2-1")
    return w.vm("cg-j2-1")


@pytest.mark.parametrize("has", [True, False])
def test_what_a_preset_says_holds(sqlite_url: str, has: bool) -> None:
    """The network is not even read then."""
    with world(sqlite_url) as w:
        w.cloud.nats["us-central1"] = "nat-1"
        assert has_address(launched(w, external_address=has)) is has
        assert (w.attempts()[0].address, w.cloud.calls["way_out"]) == (AddressChoice(has, "its preset says so"), 0)


def test_a_network_that_cannot_be_read_stops_no_launch(sqlite_url: str) -> None:
    """A job that cannot reach its data costs more than an address: it has one, and says why."""
    with world(sqlite_url) as w:
        w.cloud.nats["us-central1"], w.cloud.hidden = "nat-1", {"us-central1"}
        assert has_address(launched(w))
        choice = w.attempts()[0].address
    assert choice is not None
    assert choice.why.startswith("whether its subnetwork has Cloud NAT could not be read: The service account may not")


def test_an_insert_is_repeated_as_it_was_asked(sqlite_url: str) -> None:
    """The decision is stored with the attempt: a later look at the network changes nothing of it."""
    with world(sqlite_url) as w:
        w.cloud.nats["us-central1"], w.cloud.deaf = "nat-1", 1
        w.submit(recipe=NEAR)
        w.step()
        assert not w.cloud.all
        w.cloud.nats.clear()
        w.guard()
        w.settle(10)
        assert len(w.cloud.asked_for) == 2
        assert not has_address(w.vm())


def test_a_vm_for_people_keeps_its_address(sqlite_url: str) -> None:
    """Cloud NAT leads out, and does not say whether they would get in."""
    with world(sqlite_url) as w:
        w.cloud.nats["us-central1"] = "nat-1"
        w.submit(kind=JobKind.DEV, recipe=NEAR, checkpoint=None, command=())
        w.until_up("cg-j1-1")
        assert has_address(w.vm())
        assert (w.attempts()[0].address, w.cloud.calls["way_out"]) == (AddressChoice(True, "people connect to it"), 0)


def test_private_google_access_alone_is_no_way_out() -> None:
    """The reason names what the preset's owner, who knows what its jobs need, may set."""
    choice = choice_of(JobKind.TRAINING, RECIPE, WayOut("train of us-central1", reaches_google=True))
    assert choice.is_external
    assert "reaches Google alone: external_address = false if jobs need nothing else" in choice.why


class Network:
    """Counts how often it is asked; raises `error` while there is one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        self.asked.append(f"{project}/{region}/{network}/{subnetwork}")
        if self.error is not None:
            raise self.error
        return NAT


def test_a_region_is_read_once_in_five_minutes() -> None:
    """All jobs with the same subnetwork share one answer."""
    network, clock = Network(), HandClock(NOW)
    finder = AddressFinder(network.way_out, clock)
    for _ in range(3):
        assert finder.choices([(TRAINS, NEAR), (TRAINS, NEAR)]) == [{"us-central1": HAS_NAT}] * 2
    assert network.asked == ["lab/us-central1/global/networks/default/"]
    clock.advance(timedelta(minutes=5))
    finder.choices([(TRAINS, RECIPE)])
    assert sorted(one.split("/")[1] for one in network.asked) == ["us-central1", "us-central1", "us-east1"]


@pytest.mark.parametrize("error", [PermissionDenied("No.", "Grant it."), CloudUnavailable("It does not answer.")])
def test_a_failure_is_read_again_after_a_minute(error: Exception) -> None:
    """Until then VMs have addresses, and Google is not asked for each job."""
    network, clock = Network(), HandClock(NOW)
    network.error = error
    finder = AddressFinder(network.way_out, clock)
    for _ in range(3):
        (choices,) = finder.choices([(TRAINS, NEAR)])
        assert choices["us-central1"].is_external
    assert len(network.asked) == 1
    network.error = None
    clock.advance(timedelta(minutes=1))
    assert finder.choices([(TRAINS, NEAR)]) == [{"us-central1": HAS_NAT}]


def test_a_quote_counts_an_address_where_there_would_be_one(sqlite_database: Database) -> None:
    """It costs half on Spot; behind Cloud NAT there is none, and the quote says so."""
    setup = JobSetup(priced(sqlite_database))
    cloud = setup.network = CloudOfVms(setup.clock)
    wanted = Submission(TRAINS)
    (place, *_) = setup.it.quote(wanted, timedelta(hours=1), None).places
    assert (place.spot.address, place.on_demand.address) == (Money.of("0.0025"), Money.of("0.005"))
    assert place.address == NO_NAT
    cloud.nats["us-central1"] = "nat-1"
    setup.clock.advance(timedelta(minutes=5))
    (place, *_) = setup.it.quote(wanted, timedelta(hours=1), None).places
    assert (place.spot.address, place.on_demand.address, place.address) == (Money(), Money(), HAS_NAT)
