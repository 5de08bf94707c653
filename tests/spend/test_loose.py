"""Loose things of the simulated Compute Engine are named and priced, and never a cluster's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.gce.conftest import Waits

from costguard.gce.client import ComputeCloud
from costguard.gce.prices import CatalogPrices
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel
from costguard.model.observation import LooseKind, LooseThing
from costguard.spend.loose.memory import LooseAnswer
from costguard.spend.loose.report import LooseReport, UnknownWhy, command_of, report_of
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
ZONE, REGION = "us-central1-a", "us-central1"
RULES = OwnerRules(domain="example.com")
GIB = 2**30


@dataclass
class Project:
    world: World
    cloud: ComputeCloud
    url: str

    def disk(self, name: str, **more: Any) -> None:
        body = {"name": name, "sizeGb": "100", "type": f"zones/{ZONE}/diskTypes/pd-ssd", **more}
        self.world.storage.insert("demo", ZONE, body, "ana@example.com", "")
        self.world.advance(timedelta(minutes=1))

    def has(self, kind: str, name: str, place: str = "global", **fields: Any) -> None:
        self.world.belongings.append(Belonging(kind, "demo", place, name, self.world.now, fields))

    def report(self) -> LooseReport:
        book = PriceBook(CatalogPrices(self.url).fetch())
        answer = LooseAnswer("demo", self.world.now, self.cloud.loose("demo"), self.world.now)
        return report_of(["demo"], [answer], RULES, book, self.world.now)


@pytest.fixture
def project() -> Iterator[Project]:
    world, waits = World(ManualClock(START)), Waits()
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(START), wait=waits)
        yield Project(world, cloud, url)
        cloud.close()


def _only(report: LooseReport, name: str) -> tuple[str, Decimal | None, str]:
    (item,) = [item for item in report.items if item.thing.name == name]
    monthly = None if item.monthly is None else item.monthly.dollars
    return item.thing.what, monthly, item.command


def test_disk_that_nothing_uses_is_listed_with_its_owner_and_price(project: Project) -> None:
    """The label of the disk names the owner, and its type the price."""
    project.disk("old", labels={"owner": "ana"})
    report = project.report()
    assert _only(report, "old") == (
        "pd-ssd disk, 100 GiB",
        Decimal("17"),
        f"gcloud compute disks delete old --zone={ZONE} --project=demo",
    )
    assert [item.owner for item in report.items] == ["ana@example.com"]


def test_one_image_that_cannot_be_read_hides_no_other(project: Project) -> None:
    """The images before it and after it are listed, and that one could not be read is said."""
    for name, size in (("first", "1"), ("second", "many"), ("third", "3")):
        project.has("image", name, archiveSizeBytes=size, storageLocations=[REGION])
    listing = project.cloud.loose("demo")
    assert [thing.name for thing in listing.things] == ["first", "third"]
    (unread,) = listing.unread
    assert unread.reason.startswith("One of the images of project demo could not be understood: ")


def test_one_future_reservation_that_cannot_be_read_hides_no_other(project: Project) -> None:
    """The others are planned, and what the unreadable one made in calendar mode is priced by its own model."""
    made = f"projects/demo/zones/{ZONE}/reservations/november-made"
    for name, count in (("first", "1"), ("november", "many"), ("third", "3")):
        project.has(
            "futureReservation",
            name,
            f"zones/{ZONE}",
            reservationMode="CALENDAR",
            timeWindow={"startTime": "2026-12-01T08:00:00Z", "duration": {"seconds": "86400"}},
            status={"procurementStatus": "FULFILLED", "autoCreatedReservations": [made] if name == "november" else []},
            specificSkuProperties={"totalCount": count, "instanceProperties": {"machineType": "a4-highgpu-8g"}},
        )
    project.has(
        "reservation",
        "november-made",
        f"zones/{ZONE}",
        specificReservation={"count": "2", "instanceProperties": {"machineType": "a4-highgpu-8g"}},
    )
    listing = project.cloud.loose("demo")
    assert [plan.name for plan in listing.planned] == ["first", "third"]
    (unread,) = listing.unread
    assert unread.reason.startswith(
        "One of the future reservations of project demo could not be understood: 'november'"
    )
    assert [thing.model for thing in listing.things] == [ProvisioningModel.RESERVATION_BOUND]


def test_attached_disk_is_not_loose_and_a_detached_one_is_since_then(project: Project) -> None:
    """`lastDetachTimestamp` is the moment."""
    body = {
        "name": "vm",
        "machineType": f"zones/{ZONE}/machineTypes/n1-standard-4",
        "disks": [{"boot": True, "autoDelete": False, "initializeParams": {"sourceImage": "debian-12"}}],
        "networkInterfaces": [{"network": "global/networks/default"}],
    }
    project.world.insert("demo", ZONE, body)
    project.world.advance(timedelta(minutes=5))
    assert project.report().items == []
    deletion = project.world.delete("demo", "vm")
    project.world.advance(timedelta(hours=1))
    (item,) = project.report().items
    assert item.thing.unused_since is not None
    assert abs(item.since - deletion.insert_time) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("volume", {"labels": {"goog-gke-volume": ""}}),
        ("volume", {"description": '{"kubernetes.io/created-for/pvc/name":"data","storage.gke.io/created-by":"pd"}'}),
        ("pvc-5d1c0f3e-6f0e-4a3b-9d57-2f6c1d9e8a41", {}),
        ("gke-train-1a2b-pvc-5d1c0f3e-6f0e-4a3b-9d57-2f6c1d9e8a41", {}),
    ],
)
def test_volume_that_a_cluster_may_need_is_never_loose(project: Project, name: str, more: dict[str, Any]) -> None:
    """Volumes are counted apart."""
    project.disk(name, **more)
    report = project.report()
    assert report.items == []
    assert report.cluster_disks == 1


def test_reserved_addresses_are_loose_and_used_internal_and_ipv6_ones_are_not(project: Project) -> None:
    """External IPv4 addresses alone cost money."""
    project.has("address", "loose", REGION, status="RESERVED", addressType="EXTERNAL")
    project.has("address", "used", REGION, status="IN_USE", addressType="EXTERNAL")
    project.has("address", "internal", REGION, status="RESERVED", addressType="INTERNAL")
    project.has("address", "free", REGION, status="RESERVED", addressType="EXTERNAL", ipVersion="IPV6")
    report = project.report()
    assert [item.thing.name for item in report.items] == ["loose"]
    assert _only(report, "loose") == (
        "static external address",
        Decimal("7.30"),  # 730 hours at 0.01
        f"gcloud compute addresses delete loose --region={REGION} --project=demo",
    )


def test_snapshots_and_images_are_priced_by_what_they_hold(project: Project) -> None:
    """`storageBytes` and `archiveSizeBytes` are billed, not the size of the disk."""
    source = f"projects/demo/zones/{ZONE}/disks/data"
    held: dict[str, Any] = {"storageBytes": str(20 * GIB), "storageLocations": [REGION]}
    project.has("snapshot", "kept", sourceDisk=source, autoCreated=True, **held)
    project.has("snapshot", "cold", snapshotType="ARCHIVE", **held)
    project.has("image", "old", archiveSizeBytes=str(10 * GIB), storageLocations=[REGION])
    report = project.report()
    assert _only(report, "kept") == (
        "snapshot of data, 20.0 GiB, made by a schedule",
        Decimal(1),
        "gcloud compute snapshots delete kept --project=demo",
    )
    assert _only(report, "old")[1:] == (Decimal("0.5"), "gcloud compute images delete old --project=demo")
    assert _only(report, "cold")[1] is None
    assert report.unpriced == 1
    assert not report.total.whole
    assert report.total.amount.dollars == Decimal("1.5")


def test_unused_part_of_a_reservation_costs_what_its_vms_would(project: Project) -> None:
    """The VMs that nobody uses are `count` less `inUseCount`."""
    made = {"machineType": "n1-standard-4"}
    part = {"count": "4", "inUseCount": "3", "instanceProperties": made}
    project.has("reservation", "part", ZONE, specificReservation=part)
    project.has("reservation", "full", ZONE, specificReservation={**part, "inUseCount": "4"})
    project.has("reservation", "empty", ZONE, specificReservation={**part, "inUseCount": "0"})
    report = project.report()
    hourly = 4 * Decimal("0.031611") + 15 * Decimal("0.004237")
    assert _only(report, "part") == (
        "1 of 4 reserved n1-standard-4 unused",
        730 * hourly,
        f"gcloud compute reservations update part --vm-count=3 --zone={ZONE} --project=demo",
    )
    assert _only(report, "empty")[1:] == (
        4 * 730 * hourly,
        f"gcloud compute reservations delete empty --zone={ZONE} --project=demo",
    )
    assert len(report.items) == 2


H100 = {"machineType": "a3-megagpu-8g"}
B200 = {"machineType": "a4-highgpu-8g"}


def test_unused_reservations_burn_by_the_hour_and_name_their_owner(project: Project) -> None:
    """A reservation has no labels, so that its description names the owner; one without a price is never zero."""
    part = {"count": "4", "inUseCount": "3", "instanceProperties": {"machineType": "n1-standard-4"}}
    project.has("reservation", "part", ZONE, specificReservation=part, description="For Friday; owner=ana, ask first.")
    project.has(
        "reservation",
        "written-out",
        ZONE,
        specificReservation={**part, "inUseCount": "2"},
        description="owner=ben@lab.example.",
        deleteAtTime="2026-11-30T12:00:00-08:00",
    )
    report = project.report()
    hourly = 4 * Decimal("0.031611") + 15 * Decimal("0.004237")
    by_name = {item.thing.name: item for item in report.unused}
    assert {name: item.owner for name, item in by_name.items()} == {
        "part": "ana@example.com",
        "written-out": "ben@lab.example",
    }
    assert by_name["written-out"].thing.ends_at == datetime(2026, 11, 30, 20, tzinfo=UTC)
    assert report.unused_vms == 3
    assert report.unused_burn.whole
    assert report.unused_burn.amount.dollars == 3 * hourly
    unknown = {**part, "instanceProperties": {"machineType": "a4x-highgpu-4g"}}
    project.has("reservation", "unlisted", "us-central1-a", specificReservation=unknown)
    report = project.report()
    assert {item.thing.name: item.hourly is None for item in report.unused}["unlisted"]
    assert report.unused_burn.amount.dollars == 3 * hourly
    assert not report.unused_burn.whole


def test_calendar_mode_has_prices_of_its_own_an_end_and_no_command(project: Project) -> None:
    """Future reservations say which reservations are of calendar mode; those that came to nothing are left out."""
    zone = "us-central1-b"
    url = f"https://www.googleapis.com/compute/v1/projects/demo/zones/{zone}/reservations"
    window = {"startTime": "2026-11-01T00:00:00-07:00", "endTime": "2026-11-29T00:00:00-08:00"}
    project.has(
        "futureReservation",
        "november",
        zone,
        reservationMode="CALENDAR",
        timeWindow=window,
        autoCreatedReservationsDeleteTime="2026-11-29T00:00:00-08:00",
        status={"procurementStatus": "FULFILLED", "autoCreatedReservations": [f"{url}/november-a"]},
        specificSkuProperties={"totalCount": "2", "instanceProperties": B200},
        description="owner=ana",
    )
    later = {"startTime": "2026-12-01T00:00:00-08:00", "duration": {"seconds": "86400"}}
    for name, state in (("december", "APPROVED"), ("never", "DECLINED")):
        project.has(
            "futureReservation",
            name,
            "us-central1-a",
            reservationMode="DEFAULT",
            timeWindow=later,
            status={"procurementStatus": state},
            specificSkuProperties={"totalCount": "1", "instanceProperties": H100},
        )
    held = {"count": "2", "inUseCount": "1", "instanceProperties": B200}
    project.has("reservation", "november-a", zone, specificReservation=held, deleteAtTime=window["endTime"])
    report = project.report()
    (item,) = report.unused
    assert item.thing.what == "1 of 2 reserved a4-highgpu-8g unused, calendar mode"
    assert item.hourly is not None
    assert item.hourly.dollars == 8 * Decimal("11.277")
    assert item.command == ""
    assert item.thing.ends_at == datetime(2026, 11, 29, 8, tzinfo=UTC)
    november, december = report.planned
    assert (november.name, november.what, november.is_calendar, november.state) == (
        "november",
        "2 a4-highgpu-8g",
        True,
        "fulfilled",
    )
    assert november.reservation_ends_at == november.ends_at == item.thing.ends_at
    assert (december.name, december.is_calendar, december.reservation_ends_at) == ("december", False, None)
    assert december.ends_at == datetime(2026, 12, 2, 8, tzinfo=UTC)


def test_list_that_may_not_be_read_is_unknown_with_its_permission(project: Project) -> None:
    """A project that refuses each list is unknown once."""
    project.has("address", "loose", REGION, status="RESERVED", addressType="EXTERNAL")
    project.world.faults.add(kind="forbidden", project="demo")
    listing, report = project.cloud.loose("demo"), project.report()
    assert report.items == []
    assert report.unread == []
    (unknown,) = report.unknown
    assert (unknown.project, unknown.why) == ("demo", UnknownWhy.REFUSED)
    assert "403" in unknown.reason
    assert {(one.kind, one.permission) for one in listing.unread} >= {
        (LooseKind.DISK, "compute.disks.list"),
        (LooseKind.ADDRESS, "compute.addresses.list"),
        (LooseKind.SNAPSHOT, "compute.snapshots.list"),
        (LooseKind.RESERVATION, "compute.reservations.list"),
        (LooseKind.FUTURE_RESERVATION, "compute.futureReservations.list"),
    }
    assert all("403" in one.reason for one in listing.unread)
    assert not report.total.whole


def test_zone_that_does_not_answer_is_unknown_and_the_rest_is_listed(project: Project) -> None:
    """A partial answer makes nothing gone."""
    project.has("address", "loose", REGION, status="RESERVED", addressType="EXTERNAL")
    project.world.faults.add(kind="unreachable_zone", zone="europe-west4-a")
    report = project.report()
    assert [item.thing.name for item in report.items] == ["loose"]
    assert any("zones/europe-west4-a" in one.reason for one in report.unread)


def test_names_are_quoted_for_a_shell() -> None:
    """A name with odd characters ends no command."""
    thing = LooseThing(LooseKind.DISK, "example.com:lab", f"zones/{ZONE}", "a; rm -rf ~", "disk", START)
    command = command_of(thing)
    assert shlex.split(command) == [
        *("gcloud", "compute", "disks", "delete", "a; rm -rf ~"),
        *(f"--zone={ZONE}", "--project=example.com:lab"),
    ]
