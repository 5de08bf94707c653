"""Looking at one VM, and stopping it, through the official client and over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.gce.bodies import single
from tests.gce.conftest import Connect, Waits
from tests.gce.server import Answer, google_error, json_answer

from costguard.errors import (
    BadAnswer,
    CloudError,
    CloudUnavailable,
    CredentialsRefused,
    NotFound,
    PermissionDenied,
    RateLimited,
)
from costguard.gce.client import ComputeCloud, Patience
from costguard.model.instance import Status
from costguard.model.ports import Actuator
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce import changes
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ZONE = "us-central1-a"
ONE, OTHER = str(UUID(int=1)), str(UUID(int=2))


@dataclass
class Sandbox:
    world: World
    actuator: Actuator

    def insert(self, name: str, *more_disks: dict[str, Any]) -> str:
        """Inserts a VM, and returns its numeric id."""
        disk = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": "debian-12"}}
        body = {
            "name": name,
            "machineType": f"zones/{ZONE}/machineTypes/n1-standard-4",
            "disks": [disk, *more_disks],
            "networkInterfaces": [{"network": "global/networks/default"}],
        }
        self.world.insert("demo", ZONE, body)
        self.world.advance(timedelta(minutes=5))
        return str(self.world.instance("demo", name).id)

    def kinds(self) -> list[str]:
        return [operation.kind for operation in self.world.operations.of("demo")]

    def status(self, name: str) -> Status | None:
        sighting = self.actuator.look("demo", ZONE, name)
        return sighting.status if sighting is not None else None


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    clock = ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC))
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(url, clock, wait=Waits())
        yield Sandbox(world, cloud)
        cloud.close()


def test_a_look(sandbox: Sandbox) -> None:
    """The id, the state, the last start and the labels are those of the VM that has the address now."""
    gce_id = sandbox.insert("trainer")
    labels = {"owner": "ana"}
    sandbox.world.change("setLabels", "demo", ZONE, "trainer", changes.labels(labels, fingerprint({})))
    sighting = sandbox.actuator.look("demo", ZONE, "trainer")
    assert sighting is not None
    assert (sighting.gce_id, sighting.status, sighting.labels) == (gce_id, Status.RUNNING, labels)
    assert sighting.last_started_at == sandbox.world.instance("demo", "trainer").last_start
    assert sandbox.actuator.look("demo", ZONE, "nobody") is None


def test_a_stop_under_one_request_id_is_one_operation(sandbox: Sandbox) -> None:
    """A repeat gives the operation that the first gave; the VM comes to rest once."""
    gce_id = sandbox.insert("trainer")
    first = sandbox.actuator.stop("demo", ZONE, gce_id, ONE)
    assert sandbox.actuator.stop("demo", ZONE, gce_id, ONE) == first
    sandbox.world.advance(timedelta(minutes=5))
    assert sandbox.status("trainer") is Status.STOPPED
    assert sandbox.kinds() == ["insert", "stop"]
    (operation,) = [one for one in sandbox.world.operations.of("demo") if one.kind == "stop"]
    assert (str(operation.id), operation.request_id) == (first, ONE)


def test_vm_with_local_ssd_is_stopped(sandbox: Sandbox) -> None:
    """Google refuses a stop that does not say what becomes of local SSD data (skypilot-org/skypilot issue 2586)."""
    gce_id = sandbox.insert("trainer", {"type": "SCRATCH", "interface": "NVME", "autoDelete": True})
    sandbox.actuator.stop("demo", ZONE, gce_id, ONE)
    sandbox.world.advance(timedelta(minutes=5))
    assert sandbox.status("trainer") is Status.STOPPED


def test_by_its_id_no_namesake_is_stopped(sandbox: Sandbox) -> None:
    """A VM that was made again under the same name has another id, and is left alone."""
    gone = sandbox.insert("trainer")
    sandbox.world.delete("demo", "trainer")
    sandbox.world.advance(timedelta(minutes=5))
    sandbox.insert("trainer")
    with pytest.raises(NotFound):
        sandbox.actuator.stop("demo", ZONE, gone, ONE)
    assert sandbox.status("trainer") is Status.RUNNING


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_trouble_at_google_is_asked_once(sandbox: Sandbox, code: int) -> None:
    """A 5xx is reported as "may have begun", and the executor alone decides to retry."""
    gce_id = sandbox.insert("trainer")
    sandbox.world.faults.add("server_error", code=code, method="POST", count=1)
    with pytest.raises(CloudUnavailable, match=str(code)):
        sandbox.actuator.stop("demo", ZONE, gce_id, ONE)
    assert sandbox.world.faults.listed() == []
    assert sandbox.kinds() == ["insert"]


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        ("forbidden", {"project": "demo"}, PermissionDenied),
        ("project_gone", {"project": "demo"}, NotFound),
        ("unauthenticated", {}, CredentialsRefused),
        ("garbage", {}, CloudUnavailable),  # it came with a 200
        ("garbage", {"what": "other"}, CloudUnavailable),  # and was the answer to another request
    ],
)
def test_refusals(sandbox: Sandbox, kind: str, values: dict[str, str], error: type[CloudError]) -> None:
    """Each error is reported by its kind, for a look as for a stop."""
    gce_id = sandbox.insert("trainer")
    sandbox.world.faults.add(kind, **values)
    with pytest.raises(error):
        sandbox.actuator.stop("demo", ZONE, gce_id, ONE)
    with pytest.raises(error):
        sandbox.actuator.look("demo", ZONE, "trainer")


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (google_error(403, "rateLimitExceeded"), RateLimited, "quota"),
        (google_error(403, "forbidden"), PermissionDenied, "Grant the role of deploy/iam-role-stop.yaml"),
        (google_error(400, "resourceNotReady", "The resource is not ready"), BadAnswer, "The resource is not ready"),
        (google_error(412, "conditionNotMet"), BadAnswer, "412"),
        (json_answer({}), CloudUnavailable, "may have begun"),
        (Answer(b'{"id": "7"', promised=40), CloudUnavailable, "no answer"),
    ],
)
def test_answers(connect: Connect, answer: Answer, error: type[CloudError], said: str) -> None:
    """A call that certainly did nothing is distinguished from one that may have begun; the message says what next."""
    setup = connect(lambda _: answer)
    with pytest.raises(error, match=said):
        setup.cloud.stop("p", ZONE, "101", ONE)
    assert [one.query["requestId"] for one in setup.server.requests] == [ONE]
    assert setup.waits.seconds == []


def test_an_answer_that_never_comes(connect: Connect) -> None:
    """A request that is not answered in time may have begun; it is not sent a second time."""
    late = threading.Event()

    def answer(_: object) -> Answer:
        late.wait(30)
        return json_answer({"kind": "compute#operation", "id": "7"})

    setup = connect(answer, patience=Patience(request_s=1))
    try:
        with pytest.raises(CloudUnavailable):
            setup.cloud.stop("p", ZONE, "101", ONE)
        assert setup.server.paths() == ["stop"]
    finally:
        late.set()


def test_a_start_that_is_no_time(connect: Connect) -> None:
    """A VM whose last start cannot be read cannot be distinguished from one that was started since."""
    setup = connect(lambda _: json_answer(single(lastStartTimestamp="soon")))
    with pytest.raises(BadAnswer, match="last start 'soon' is not a time"):
        setup.cloud.look("p", ZONE, "trainer")
