"""Answers with 200 that are not what was asked for: what they would tell is not known, and nothing else."""

from __future__ import annotations

import pytest
from tests.gce.bodies import ROOT, ZONE, single
from tests.gce.conftest import Connect
from tests.gce.server import Answer, json_answer
from tests.gce.test_presence import NOT_THE_VM

from costguard.errors import CloudUnavailable
from costguard.model.instance import InstanceKey, Status
from costguard.model.observation import Presence, Sighting

OPERATION = {
    "kind": "compute#operation",
    "id": "7",
    "name": "operation-7",
    "zone": f"{ROOT}/zones/{ZONE}",
    "operationType": "insert",
    "status": "DONE",
    "targetId": "101",
}
# The identifying fields of a recorded single read of cloud-custodian/cloud-custodian
# (flight data instance-get, GET zones/us-central1-b/instances/c7n-jenkins, 2018).
RECORDED = {
    "kind": "compute#instance",
    "id": "2966820606951926687",
    "creationTimestamp": "2018-05-19T05:15:46.024-07:00",
    "name": "c7n-jenkins",
    "status": "RUNNING",
    "zone": "https://www.googleapis.com/compute/v1/projects/cloud-custodian/zones/us-central1-b",
    "machineType": "https://www.googleapis.com/compute/v1/projects/cloud-custodian/zones/us-central1-b/machineTypes/"
    "n1-standard-1",
}


def _other(**changes: object) -> Answer:
    return json_answer({**OPERATION, **changes})


@pytest.mark.parametrize("answer", NOT_THE_VM)
def test_answer_without_the_vm_is_not_a_missing_vm(connect: Connect, answer: Answer) -> None:
    """A look raises, and says what came and what to check; None would mean that the VM is gone."""
    setup = connect(lambda _: answer)
    with pytest.raises(CloudUnavailable, match="Check"):
        setup.cloud.look("p", ZONE, "trainer")
    with pytest.raises(CloudUnavailable):
        setup.cloud.launcher.look("p", ZONE, "trainer")


def test_what_came_in_its_place_is_named(connect: Connect) -> None:
    """Someone who reads the log can tell a proxy's answer from Google's."""
    setup = connect(lambda _: json_answer({}))
    with pytest.raises(CloudUnavailable) as raised:
        setup.cloud.look("p", ZONE, "trainer")
    assert raised.value.message == (
        "Reading instance trainer in us-central1-a of project p: what came is not that instance but "
        "something without a kind named '' with the id none."
    )


def test_recorded_single_read_is_the_vm(connect: Connect) -> None:
    """A real answer passes every check, in its own zone and under its own name alone."""
    setup = connect(lambda _: json_answer(RECORDED))
    key, zone = InstanceKey("cloud-custodian", "2966820606951926687"), "us-central1-b"
    assert setup.cloud.presence(key, zone, "c7n-jenkins") is Presence.THERE
    assert setup.cloud.presence(InstanceKey("cloud-custodian", "1"), zone, "c7n-jenkins") is Presence.GONE
    assert setup.cloud.presence(key, "us-central1-c", "c7n-jenkins") is Presence.NOT_KNOWN
    sighting = setup.cloud.look("cloud-custodian", zone, "c7n-jenkins")
    assert sighting == Sighting("2966820606951926687", Status.RUNNING, None, {})


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({}),
        json_answer({"status": "DONE"}),
        Answer(b"<html></html>"),
        _other(kind="compute#instance"),
        _other(id="8", name="operation-8"),
        _other(id="0"),
    ],
)
def test_answer_without_the_operation_says_nothing_about_it(connect: Connect, answer: Answer) -> None:
    """Neither that it is done, nor that it goes on, nor that Google has forgotten it."""
    setup = connect(lambda _: answer)
    with pytest.raises(CloudUnavailable):
        setup.cloud.launcher.operation("p", ZONE, "7")


@pytest.mark.parametrize("name", ["7", "operation-7"])
def test_operation_is_known_by_its_id_and_by_its_name(connect: Connect, name: str) -> None:
    """Google answers to both."""
    answer = connect(lambda _: json_answer(OPERATION)).cloud.launcher.operation("p", ZONE, name)
    assert answer is not None
    assert (answer.is_done, answer.target_id) == (True, "101")


@pytest.mark.parametrize("answer", [{}, {"kind": "compute#region", "id": "1", "name": "us-east1"}, {"quotas": []}])
def test_answer_without_the_region_is_no_region_without_quotas(connect: Connect, answer: dict[str, object]) -> None:
    """Quotas that were not read are not zero, nor unlimited."""
    with pytest.raises(CloudUnavailable):
        connect(lambda _: json_answer(answer)).cloud.launcher.quotas("p", "us-central1")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"guestCpus": 6, "memoryMb": 24576},
        {"kind": "compute#machineType", "name": "y9-1", "guestCpus": 6, "memoryMb": 24576},
        {"kind": "compute#instance", "id": "5", "name": "x9-1"},
    ],
)
def test_answer_without_the_machine_type_leaves_it_unknown(connect: Connect, answer: dict[str, object]) -> None:
    """A VM of it cannot be priced until Google says what the type is made of."""
    assert connect(lambda _: json_answer(answer)).cloud.shape("p", ZONE, "x9-1") is None


def test_another_kind_is_no_accepted_request(connect: Connect) -> None:
    """The next look tells whether the stop began."""
    setup = connect(lambda _: json_answer(single()))
    with pytest.raises(CloudUnavailable, match="may have begun"):
        setup.cloud.stop("p", ZONE, "101", "1d9e5c2e-5c2e-4c2e-8c2e-1d9e5c2e5c2e")


@pytest.mark.parametrize("body", [b"{}", b'{"kind": "compute#instanceList"}', b"[]", b"<html></html>", b"null", b""])
def test_list_of_another_kind_is_no_empty_list(connect: Connect, body: bytes) -> None:
    """Instances, disks and operations: nothing of the project was read, and that is said."""
    seen = connect(lambda _: Answer(body)).cloud.observe("p", None)
    assert seen.instances_complete is False
    assert seen.operations_through_at is None
    assert {part.scope for part in seen.unread} >= {"instances"}
    assert {part.code for part in seen.unread} == {"bad_answer"}
