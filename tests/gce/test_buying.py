"""The insert bodies of flex-start VMs and of VMs on reservations, and which reservations end their VMs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud import compute_v1
from tests.gce.conftest import Connect, Setup, Waits
from tests.gce.server import Answer, Asked, google_error, json_answer
from tests.gce.test_launches import A100, ONE, OTHER, SPOT, ZONE
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.gce.test_reservations import calendar, reserve

from costguard.errors import CloudError, RequestRefused
from costguard.gce.actions import vm_body
from costguard.gce.client import ComputeCloud
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.launch import LONGEST_WAIT, NO_NOTICE, ReservedVms, VmRequest, gpu_metrics, is_sold_by_flex_start
from costguard.model.ports import Launcher
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.server import running
from costguard_sandbox.world import World

FLEX = replace(
    SPOT,
    recipe=A100,
    provisioning_model=ProvisioningModel.FLEX_START,
    wait=LONGEST_WAIT,
    notice=NO_NOTICE,
)
RESERVED = replace(FLEX, provisioning_model=ProvisioningModel.RESERVATION_BOUND, wait=timedelta(0), reservation="train")
_OPERATION = json_answer({"kind": "compute#operation", "id": "7"})
_FACTS = Path(__file__).resolve().parents[3] / "shared/outside/capacity/facts.json"


def _sent(connect: Connect, vm: VmRequest, answers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the body of the insert that Google gets, where it answers reads by the ends of their paths."""
    setup = connect(_google(answers or {}))
    setup.cloud.launcher.insert("p", ZONE, vm, ONE)
    body = setup.server.requests[-1].body
    assert problems(body, "Instance") == []
    assert isinstance(body, dict)
    return body


def _google(answers: Mapping[str, Any]) -> Callable[[Asked], Answer]:
    def answer(request: Asked) -> Answer:
        for end, body in answers.items():
            if request.path.endswith(end):
                return body if isinstance(body, Answer) else json_answer(body)
        return _OPERATION

    return answer


def _facts() -> Mapping[str, Any]:
    if not _FACTS.exists():
        pytest.skip("the recorded facts about capacity (shared/outside/capacity) are not here")
    return {fact["id"]: fact["data"] for fact in json.loads(_FACTS.read_text())}


def test_flex_start_request_is_the_one_that_google_accepts(connect: Connect) -> None:
    """Scheduling, wait and affinity as in the acceptance test of Google's Terraform provider and in public programs."""
    facts = _facts()
    queued = _sent(connect, replace(FLEX, max_run=timedelta(seconds=28800)))
    accepted = facts["flex-request"]["scheduling"] | {"maxRunDuration": {"seconds": "28800"}}
    assert queued["scheduling"] == accepted
    for part in ("params", "reservationAffinity"):
        assert queued[part] == facts["flex-queue"][part]


@pytest.mark.parametrize(
    ("seconds", "sent"),
    [(0, None), (89, None), (90, "90"), (7200, "7200")],
)
def test_flex_start_below_90_seconds_is_now_or_fail(connect: Connect, seconds: int, sent: str | None) -> None:
    """Google's "Compute Engine instance lifecycle": with a wait of 90 s or longer, the VM is PENDING until granted."""
    body = _sent(connect, replace(FLEX, wait=timedelta(seconds=seconds)))
    wanted = {} if sent is None else {"params": {"requestValidForDuration": {"seconds": sent}}}
    assert {key: body[key] for key in ("params",) if key in body} == wanted


def test_only_flex_start_waits(connect: Connect) -> None:
    """A wait that another model carries by mistake is not sent: Google knows it for flex-start alone."""
    body = _sent(connect, replace(SPOT, wait=LONGEST_WAIT))
    assert "params" not in body
    assert "reservationAffinity" not in body


def test_google_client_has_every_field() -> None:
    """The classes of google-cloud-compute take the whole body: a field that they lacked would raise."""
    instance = compute_v1.Instance(vm_body(ZONE, FLEX))
    assert instance.params.request_valid_for_duration.seconds == 7200
    assert instance.scheduling.provisioning_model == "FLEX_START"
    bound = compute_v1.Instance(vm_body(ZONE, RESERVED, is_bound=True))
    assert bound.scheduling.provisioning_model == "RESERVATION_BOUND"
    assert list(bound.reservation_affinity.values) == ["train"]


def _reservation(name: str = "train", **fields: Any) -> dict[str, Any]:
    made = {"kind": "compute#reservation", "id": "5", "name": name, "zone": f"zones/{ZONE}"}
    return {**made, "specificReservationRequired": True, **fields}


def _future(mode: str, *, made: str = "train") -> dict[str, Any]:
    url = f"https://www.googleapis.com/compute/v1/projects/p/zones/{ZONE}/reservations/{made}"
    one = {"name": "asked", "reservationMode": mode, "status": {"autoCreatedReservations": [url]}}
    return {"kind": "compute#futureReservationsListResponse", "id": "x", "items": [one]}


_ENDS: Mapping[str, Any] = {"deleteAtTime": "2026-12-24T00:00:00Z"}


@pytest.mark.parametrize(
    ("reservation", "future", "model"),
    [
        (_reservation(), {}, "STANDARD"),
        (_reservation(deploymentType="DENSE"), {}, "RESERVATION_BOUND"),
        (_reservation(**_ENDS), _future("CALENDAR"), "RESERVATION_BOUND"),
        (_reservation(**_ENDS), _future("DEFAULT"), "STANDARD"),
        (_reservation(**_ENDS), _future("CALENDAR", made="other"), "STANDARD"),
        (_reservation(**_ENDS), google_error(403, "forbidden"), "STANDARD"),
        (google_error(403, "forbidden"), {}, "STANDARD"),
    ],
)
def test_reservation_decides_the_model(connect: Connect, reservation: Any, future: Any, model: str) -> None:
    """`gcloud compute instances create --help`, --provisioning-model: RESERVATION_BOUND "only" with calendar or dense.

    What cannot be read is taken for an ordinary reservation.
    """
    answers = {"/reservations/train": reservation, "/futureReservations": future}
    body = _sent(connect, RESERVED, answers)
    assert body["scheduling"]["provisioningModel"] == model
    assert body["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["train"],
    }


def test_a_reservation_is_read_for_what_it_is_made_of(connect: Connect) -> None:
    """Counts are strings in Google's JSON; what is not there is None, and no error."""
    kind = f"https://www.googleapis.com/compute/v1/projects/p/zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4"
    made = {"machineType": "n1-standard-8", "guestAccelerators": [{"acceleratorType": kind, "acceleratorCount": 2}]}
    specific = {"count": "3", "inUseCount": "1", "instanceProperties": made}
    answers = {
        "/zones/z-a/reservations/train": {**_reservation(specificReservation=specific, **_ENDS), "zone": "zones/z-a"},
        "/zones/z-b/reservations/train": google_error(404, "notFound"),
        "/projects/q/zones/z-a/reservations/open": {
            **_reservation("open", specificReservationRequired=False),
            "zone": "zones/z-a",
        },
        "/zones/z-c/reservations/train": google_error(403, "forbidden"),
    }
    cloud = connect(_google(answers)).cloud
    ends = datetime(2026, 12, 24, tzinfo=UTC)
    seen = ReservedVms("n1-standard-8", "nvidia-tesla-t4", 2, 3, 1, must_be_named=True, ends_at=ends)
    assert cloud.reservation("p", "z-a", "train") == seen
    assert cloud.reservation("p", "z-b", "train") is None
    shared = cloud.reservation("p", "z-a", "projects/q/reservations/open")
    assert shared == ReservedVms("", "", 0, 0, 0, must_be_named=False, ends_at=None)
    with pytest.raises(CloudError):
        cloud.reservation("p", "z-c", "train")


def test_reservation_of_two_kinds_of_gpu_is_of_neither(connect: Connect) -> None:
    """No VM of one of the kinds fits it, however many there are of both together."""
    kinds = [{"acceleratorType": kind, "acceleratorCount": 1} for kind in ("nvidia-tesla-t4", "nvidia-tesla-v100")]
    made = {"machineType": "n1-standard-4", "guestAccelerators": kinds}
    specific = {"count": "2", "instanceProperties": made}
    cloud = connect(_google({"/reservations/train": _reservation(specificReservation=specific)})).cloud
    seen = cloud.reservation("p", ZONE, "train")
    assert seen is not None
    assert (seen.gpu_type, seen.gpu_count) == ("nvidia-tesla-t4+nvidia-tesla-v100", 2)


def test_bound_vm_ends_with_its_reservation_alone(connect: Connect) -> None:
    """Google's requests for these VMs have a termination action and no maxRunDuration; others keep their own end."""
    bound = _sent(connect, RESERVED, {"/reservations/train": _reservation(deploymentType="DENSE")})["scheduling"]
    assert (bound["instanceTerminationAction"], "maxRunDuration" in bound) == ("DELETE", False)
    ordinary = _sent(connect, RESERVED, {"/reservations/train": _reservation()})["scheduling"]
    assert ordinary["maxRunDuration"] == {"seconds": "28800"}


def test_shared_reservation_is_read_from_its_owner(connect: Connect) -> None:
    """`ReservationAffinity.values` in the discovery document: projects/P/reservations/NAME is shared by P."""
    shared = replace(RESERVED, reservation="projects/owner/reservations/train")
    setup = connect(_google({"/reservations/train": _reservation()}))
    setup.cloud.launcher.insert("p", ZONE, shared, OTHER)
    read, insert = setup.server.requests
    assert read.path == f"/compute/v1/projects/owner/zones/{ZONE}/reservations/train"
    assert insert.body["reservationAffinity"]["values"] == ["projects/owner/reservations/train"]


@pytest.mark.parametrize("reference", ["not here!", "projects/p/reservations/"])
def test_reference_that_names_no_reservation(connect: Connect, reference: str) -> None:
    """It is refused with the two ways to write one, and Google is not asked."""
    setup = connect(_google({}))
    with pytest.raises(RequestRefused, match="names no reservation"):
        setup.cloud.launcher.insert("p", ZONE, replace(RESERVED, reservation=reference), ONE)
    assert setup.server.requests == []


def test_open_reservation_cannot_be_named(connect: Connect) -> None:
    """Google refuses it (skypilot-org/skypilot issue 3327); the refusal says how such a reservation is used."""
    setup = connect(_google({"/reservations/train": _reservation(specificReservationRequired=False)}))
    with pytest.raises(RequestRefused, match="specificReservationRequired is not set") as refused:
        setup.cloud.launcher.insert("p", ZONE, RESERVED, ONE)
    assert "launch on demand" in str(refused.value)
    assert len(setup.server.requests) == 1


def test_missing_reservation_is_refused_before_the_insert(connect: Connect) -> None:
    """No VM is asked for, and Google's words name the reservation."""
    missing = google_error(404, "notFound", f"The resource 'projects/p/zones/{ZONE}/reservations/train' was not found")
    setup: Setup = connect(_google({"/reservations/train": missing}))
    with pytest.raises(RequestRefused, match="reservations/train"):
        setup.cloud.launcher.insert("p", ZONE, RESERVED, ONE)
    assert [request.path.rpartition("/")[2] for request in setup.server.requests] == ["train"]


@pytest.fixture
def world() -> World:
    return World(ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC)))


@pytest.fixture
def launcher(world: World) -> Iterator[Launcher]:
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(world.now), wait=Waits())
        yield cloud.launcher
        cloud.close()


def _status(launcher: Launcher) -> Status | None:
    sighting = launcher.look("demo", ZONE, FLEX.name)
    return None if sighting is None else sighting.status


def test_queued_request_is_pending_until_it_is_granted(world: World, launcher: Launcher) -> None:
    """The VM has its id and is PENDING; its operation is not done, and then has no error."""
    world.faults.add("flex_start", seconds=600)
    operation = launcher.insert("demo", ZONE, FLEX, ONE)
    world.advance(timedelta(minutes=5))
    waiting = launcher.operation("demo", ZONE, operation)
    assert waiting is not None
    assert (_status(launcher), waiting.is_done) == (Status.PENDING, False)
    world.advance(timedelta(minutes=10))
    granted = launcher.operation("demo", ZONE, operation)
    assert granted is not None
    assert (_status(launcher), granted.is_done, granted.error_code) == (Status.RUNNING, True, "")


def test_queued_request_whose_operation_is_done_at_once(world: World, launcher: Launcher) -> None:
    """Where Google ends the operation before the grant, it says nothing of that: the VM is PENDING all the same."""
    world.flex_start.ends_inserts = True
    world.faults.add("flex_start", seconds=600)
    operation = launcher.insert("demo", ZONE, FLEX, ONE)
    world.advance(timedelta(minutes=5))
    answer = launcher.operation("demo", ZONE, operation)
    assert answer is not None
    assert (_status(launcher), answer.is_done, answer.error_code) == (Status.PENDING, True, "")


def test_request_that_is_never_granted(world: World, launcher: Launcher) -> None:
    """The error of its operation is that of a stockout, and its VM is gone."""
    world.faults.add("flex_start", never=True)
    operation = launcher.insert("demo", ZONE, FLEX, ONE)
    world.advance(timedelta(hours=2, minutes=1))
    answer = launcher.operation("demo", ZONE, operation)
    assert answer is not None
    assert (answer.is_done, answer.error_code) == (True, "ZONE_RESOURCE_POOL_EXHAUSTED")
    assert _status(launcher) is None


def test_queued_request_is_deleted(world: World, launcher: Launcher) -> None:
    """The VM is deleted by its id, as any other; the insert then ends with an error."""
    world.faults.add("flex_start", never=True)
    insert = launcher.insert("demo", ZONE, FLEX, ONE)
    world.advance(timedelta(minutes=1))
    sighting = launcher.look("demo", ZONE, FLEX.name)
    assert sighting is not None
    delete = launcher.delete("demo", ZONE, sighting.gce_id, OTHER)
    world.advance(timedelta(minutes=1))
    deleted, inserted = (launcher.operation("demo", ZONE, one) for one in (delete, insert))
    assert deleted is not None
    assert inserted is not None
    assert (deleted.is_done, deleted.error_code) == (True, "")
    assert (inserted.is_done, inserted.error_code) == (True, "UNSUPPORTED_OPERATION")
    assert _status(launcher) is None


@pytest.mark.parametrize(("make", "model"), [(reserve, "STANDARD"), (calendar, "RESERVATION_BOUND")])
def test_vm_runs_on_its_reservation(
    world: World, launcher: Launcher, make: Callable[[World], Belonging], model: str
) -> None:
    """The simulated Google takes the model that the adapter chose for each kind, and counts the VM."""
    one = make(world)
    operation = launcher.insert("demo", ZONE, replace(RESERVED, recipe=A100), ONE)
    world.advance(timedelta(minutes=2))
    answer = launcher.operation("demo", ZONE, operation)
    assert answer is not None
    assert (answer.error_code, _status(launcher)) == ("", Status.RUNNING)
    vm = world.instance("demo", FLEX.name)
    assert vm.scheduling["provisioningModel"] == model
    assert vm.reservation is one


def test_listing_says_what_a_vm_consumes(world: World) -> None:
    """`ResourceStatusReservationConsumptionInfo` of the discovery document: only where the VM runs on one."""
    one = reserve(world)
    with running(world) as url:
        cloud = ComputeCloud(url, ManualClock(world.now), wait=Waits())
        cloud.launcher.insert("demo", ZONE, replace(RESERVED, recipe=A100), ONE)
        cloud.launcher.insert("demo", ZONE, replace(SPOT, name="other"), OTHER)
        world.advance(timedelta(minutes=2))
        listed = {vm.name: vm.reservation for vm in cloud.observe("demo", None).instances}
        cloud.close()
    assert listed == {FLEX.name: one.path, "other": ""}


@pytest.mark.parametrize(
    ("model", "metrics"),
    [
        (ProvisioningModel.FLEX_START, ["PREEMPTIBLE_NVIDIA_A100_GPUS", "NVIDIA_A100_GPUS"]),
        (ProvisioningModel.SPOT, ["PREEMPTIBLE_NVIDIA_A100_GPUS", "NVIDIA_A100_GPUS"]),
        (ProvisioningModel.STANDARD, ["NVIDIA_A100_GPUS"]),
    ],
)
def test_flex_start_counts_against_preemptible_quota(model: ProvisioningModel, metrics: list[str]) -> None:
    """Google, "Introducing Flex-start VMs": they consume preemptible quota; the metrics are those of `regions.get`."""
    assert gpu_metrics("nvidia-tesla-a100", model) == metrics


@pytest.mark.parametrize(
    ("machine_type", "is_sold"),
    [
        ("a2-highgpu-1g", True),
        ("a3-highgpu-8g", True),
        ("a4-highgpu-8g", True),
        ("g2-standard-4", True),
        ("g4-standard-48", True),
        ("ct6e-standard-4t", True),
        ("a4x-highgpu-4g", False),
        ("ct5lp-hightpu-1t", False),
        ("n1-standard-8", False),
    ],
)
def test_series_that_flex_start_has(machine_type: str, is_sold: bool) -> None:
    """Google, "Compute Engine provisioning models": A2, A3, A4, G2, G4 and TPU v5p, v6e and TPU7x."""
    assert is_sold_by_flex_start(machine_type) is is_sold
