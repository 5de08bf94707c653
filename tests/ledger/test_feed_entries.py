"""Entries of the audit log against recorded ones: what each says, from whichever tool it comes."""

from __future__ import annotations

import base64
import copy
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.doctor.feed_setup import FILTER
from costguard.ledger.feed.entry import FeedEntry, Phase, read_entry
from costguard.ledger.feed.kinds import FeedKind
from costguard.ledger.feed.reading import Torn, read_entries
from costguard.ledger.feed.values import moment
from costguard.model.instance import ProvisioningModel

RECORDED: dict[str, dict[str, Any]] = {
    one["id"]: one["entry"]
    for one in json.loads(Path(__file__).with_name("recorded_entries.json").read_text("utf-8"))["entries"]
}
OUTSIDE = Path(__file__).parents[3] / "shared" / "outside" / "audit-log"
NO_OUTSIDE = "the recorded audit entries (shared/outside/audit-log) lie next to this repository only"

# kind, instance id, who, machine type, provisioning, moment of the event
EXPECTED = {
    "015": ("migrated", "9190313930175174271", "user5@example.com", None, None, "2021-08-11T18:48:00.000Z"),
    "019": ("created", "4224659083998119362", None, "n1-standard-4", "standard", "2021-04-15T17:43:08.353Z"),
    "042": (
        "created",
        "8586086974501957833",
        "admin@example.com",
        "e2-custom-2-6400",
        "standard",
        "2022-10-28T23:23:28.926Z",
    ),
    "043": ("created", "689579460943534750", "admin@example.com", None, None, "2022-10-28T23:23:28.926Z"),
    "044": ("created", "5782564763008031855", None, "e2-standard-2", "spot", "2022-11-04T19:05:36.638Z"),
    "046": ("changed", "3401561556013842918", "user20@example.com", None, None, "2019-11-22T00:03:18.061Z"),
    "053": ("refused", None, "user22@example.com", None, None, "2024-01-30T11:03:55.700Z"),
    "064": ("deleted", "5423650206360236277", "user26@example.com", None, None, "2020-05-15T17:54:47.793Z"),
    "automaticRestart": ("started", "2162224123123123213", None, None, None, "2020-05-06T16:36:54.151Z"),
    "bulkInsert-first": ("created", None, None, "e2-standard-2", "spot", "2023-05-08T03:24:16.483Z"),
    "bulkInsert-vm": ("created", "8693801480000000000", None, None, None, "2023-05-08T03:24:19.402Z"),
}


def read(raw: Any) -> FeedEntry:
    entry = read_entry(raw)
    assert entry is not None
    return entry


def changed(name: str, **more: Any) -> dict[str, Any]:
    raw = copy.deepcopy(RECORDED[name])
    for key, value in more.items():
        part = (
            raw["protoPayload"] if key in ("methodName", "status", "request", "response", "authenticationInfo") else raw
        )
        part[key] = value
    return raw


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_entry_says_this(name: str) -> None:
    """Kind, VM, who, machine type, provisioning model and moment of recorded entries."""
    said = read(RECORDED[name]).as_json()
    fields = ("kind", "instance_id", "who", "machine_type", "provisioning", "at")
    assert tuple(said[field] for field in fields) == EXPECTED[name]


def test_every_recorded_entry_is_of_the_kind_its_method_says() -> None:
    """All entries of the collection: those of instances by their method, all others noise."""
    if not OUTSIDE.exists():
        pytest.skip(NO_OUTSIDE)
    kinds = {
        "insert": "created",
        "delete": "deleted",
        "preempted": "preempted",
        "migrateOnHostMaintenance": "migrated",
        "setMetadata": "changed",
        "reset": "changed",
    }
    for one in json.loads((OUTSIDE / "INDEX.json").read_text("utf-8")):
        [entry] = read_entries((OUTSIDE / one["file"]).read_bytes())
        assert isinstance(entry, FeedEntry)
        _, is_of_vm, method = one["methodName"].partition("compute.instances.")
        wanted = (
            "noise" if not is_of_vm else "refused" if (one["status"] or {}).get("code") else kinds.get(method, "noise")
        )
        assert (one["file"], entry.kind.value) == (one["file"], wanted)
        assert entry.gce_id == (one["instance_id"] or None)
        assert entry.principal == one["who"]
        if one["has_machineType"] and one["nature"] == "recorded":
            assert entry.machine_type is not None
            assert entry.provisioning in ("standard", "spot")


def test_recorded_system_events_happened_before_they_were_written() -> None:
    """The moment is the operation's, 28.8 s before the entry's timestamp in this recording."""
    entry = read(RECORDED["015"])
    assert entry.written_at is not None
    assert entry.at is not None
    assert entry.written_at - entry.at == timedelta(seconds=28, microseconds=839803)
    assert entry.ended_at == entry.at


def test_both_entries_of_an_operation_are_of_one_moment() -> None:
    """The last one says in addition when it was done: the recorded insert took 7.5 s."""
    first, last = read(RECORDED["042"]), read(RECORDED["043"])
    assert (first.at, first.kind, first.operation) == (last.at, last.kind, last.operation)
    assert (first.phase, last.phase) == (Phase.FIRST, Phase.LAST)
    assert first.ended_at is None
    assert last.ended_at == datetime(2022, 10, 28, 23, 23, 36, 479234, tzinfo=UTC)
    assert first.operation_id == "5774758080129653405"
    assert first.inserted_at == datetime(2022, 10, 28, 23, 23, 31, 128000, tzinfo=UTC)


def test_request_has_disks_labels_and_addresses() -> None:
    """A recorded insert of a notebook: two disks of 100 GB, an external address, and a label without a value."""
    request = read(RECORDED["019"]).request
    assert request is not None
    assert [(disk.name, disk.size_gib, disk.disk_type, disk.boot) for disk in request.disks] == [
        ("my-instance-boot", 100, "pd-standard", True),
        ("my-instance-data", 100, "pd-standard", False),
    ]
    assert request.labels == {"goog-caip-notebook": ""}
    assert request.external_addresses == 1


def test_last_entry_says_nothing_of_the_machine() -> None:
    """The request in it has a type alone, so that the machine is unknown, not on demand."""
    assert read(RECORDED["043"]).request is None


def test_an_insert_from_a_template_does_not_say_how_it_is_bought() -> None:
    """The template decides the machine type and the provisioning model."""
    request = {"@type": "type.googleapis.com/compute.instances.insert", "sourceInstanceTemplate": "global/x/t1"}
    entry = read(changed("042", request=request))
    assert (entry.machine_type, entry.provisioning) == (None, None)
    assert entry.request is not None
    assert entry.request.template == "global/x/t1"


@pytest.mark.parametrize("model", ProvisioningModel)
def test_request_names_its_provisioning_model(model: ProvisioningModel) -> None:
    """Every model that the API knows, by its own word."""
    request = {"machineType": "zones/z/machineTypes/a3-highgpu-8g", "scheduling": {"provisioningModel": model.name}}
    assert read(changed("042", request=request)).provisioning == model.value


def test_request_may_have_gpus_and_local_ssds() -> None:
    """The API's schema has them; no recorded insert has a GPU attached."""
    scratch = [{"type": "SCRATCH", "interface": "NVME"}, {"type": "SCRATCH", "diskSizeGb": "375"}]
    gpus = {"acceleratorType": "projects/p/zones/z/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}
    request = {
        "machineType": "zones/z/machineTypes/n1-standard-8",
        "guestAccelerators": [gpus],
        "disks": [*scratch, {"source": "zones/z/disks/d"}],
        "scheduling": {"gracefulShutdown": {"enabled": True}},
    }
    read_back = read(changed("042", request=request)).request
    assert read_back is not None
    assert (read_back.gpu_type, read_back.gpu_count, read_back.local_ssd_gib) == ("nvidia-tesla-t4", 2, 750)
    assert read_back.disks == ()
    assert read_back.graceful_stop


def test_accelerators_of_two_types_are_a_type_without_a_price() -> None:
    """A listing reads them alike."""
    gpus = [
        {"acceleratorType": f"zones/z/acceleratorTypes/{name}", "acceleratorCount": count}
        for name, count in (("nvidia-tesla-t4", 1), ("nvidia-l4", 2), ("nvidia-tesla-t4", 1))
    ]
    request = {"machineType": "zones/z/machineTypes/n1-standard-8", "guestAccelerators": gpus}
    read_back = read(changed("042", request=request)).request
    assert read_back is not None
    assert (read_back.gpu_type, read_back.gpu_count) == ("nvidia-tesla-t4+nvidia-l4", 4)


def test_size_that_no_disk_has_is_unknown() -> None:
    """It would be more money than there is."""
    disk = {"boot": True, "initializeParams": {"diskSizeGb": str(2**61), "diskType": "x/pd-balanced"}}
    read_back = read(
        changed("042", request={"machineType": "zones/z/machineTypes/n1-standard-8", "disks": [disk]})
    ).request
    assert read_back is not None
    assert [one.size_gib for one in read_back.disks] == [None]


def test_a_change_says_the_new_machine_type() -> None:
    """The requests of setMachineType and setScheduling are what is changed."""
    resized = changed(
        "046", methodName="v1.compute.instances.setMachineType", request={"machineType": "zones/z/m/n2-standard-8"}
    )
    assert (read(resized).kind, read(resized).machine_type, read(resized).provisioning) == (
        FeedKind.CHANGED, "n2-standard-8", None,
    )  # fmt: skip
    rescheduled = changed(
        "046", methodName="beta.compute.instances.setScheduling", request={"provisioningModel": "SPOT"}
    )
    assert read(rescheduled).provisioning == "spot"


@pytest.mark.parametrize(
    "principal",
    [
        "503076212345@cloudservices.gserviceaccount.com",
        "service-503076212345@container-engine-robot.iam.gserviceaccount.com",
        "service-503076212345@gcp-sa-notebooks.iam.gserviceaccount.com",
        "service-503076212345@compute-system.iam.gserviceaccount.com",
        "system@google.com",
    ],
)
def test_behind_a_service_of_google_nobody_is_known(principal: str) -> None:
    """The person is in the entry of the group or cluster; the principal is kept."""
    entry = read(changed("042", authenticationInfo={"principalEmail": principal}))
    assert (entry.who, entry.principal) == (None, principal)


@pytest.mark.parametrize(
    "principal", ["ci@my-project.iam.gserviceaccount.com", "7-compute@developer.gserviceaccount.com"]
)
def test_a_service_account_of_a_project_is_who_asked(principal: str) -> None:
    """A program of the project's own."""
    assert read(changed("042", authenticationInfo={"principalEmail": principal})).who == principal


@pytest.mark.parametrize("phase", [{"first": True}, {"last": True}, None])
def test_error_in_any_entry_means_refused(phase: dict[str, bool] | None) -> None:
    """Refused at once, or failed: no stock of the zone, as a last entry says it."""
    raw = changed("043", status={"code": 8, "message": "ZONE_RESOURCE_POOL_EXHAUSTED"}, severity="ERROR")
    raw["operation"] = None if phase is None else {"id": raw["operation"]["id"], **phase}
    entry = read(raw)
    assert (entry.kind, entry.error_code, entry.error_message) == (
        FeedKind.REFUSED,
        "8",
        "ZONE_RESOURCE_POOL_EXHAUSTED",
    )


def test_words_of_a_system_event_are_no_error() -> None:
    """The status of a migration has a message and no code."""
    entry = read(RECORDED["015"])
    assert (entry.error_code, entry.message) == (None, "Instance migrated during Compute Engine maintenance.")


@pytest.mark.parametrize("name", RECORDED)
def test_the_sinks_filter_lets_recorded_entries_of_vms_through(name: str) -> None:
    """Each clause of the filter holds for them: that of a bulk insert is of no VM's resource type. Others stay out."""
    raw = RECORDED[name]
    payload = raw["protoPayload"]
    logs = re.findall(r'log_id\("([^"]+)"\)', FILTER)
    [method] = re.findall(r'methodName=~"([^"]+)"', FILTER)
    log_name = raw.get("logName", "").replace("%2F", "/")
    is_let_through = (
        (not log_name or any(log_name.endswith(log) for log in logs))
        and re.search(method, payload["methodName"]) is not None
        and all(payload.get("serviceName") == one for one in re.findall(r'serviceName="([^"]+)"', FILTER))
        and all(raw["resource"]["type"] == one for one in re.findall(r'resource.type="([^"]+)"', FILTER))
    )
    assert is_let_through is (read(raw).kind is not FeedKind.NOISE)


def test_entries_of_other_services_are_noise() -> None:
    """The service's name decides, and then the method, whatever else looks like Compute Engine."""
    assert (
        read(
            {**RECORDED["042"], "protoPayload": {**RECORDED["042"]["protoPayload"], "serviceName": "x.googleapis.com"}}
        ).kind
        is FeedKind.NOISE
    )
    assert read(changed("042", methodName="v1.compute.disks.insert")).kind is FeedKind.NOISE
    assert read(changed("042", methodName="google.container.v1.ClusterManager.CreateCluster")).kind is FeedKind.NOISE


def in_bigquery(raw: dict[str, Any]) -> dict[str, Any]:
    """The entry as a table of BigQuery has it: payload under another name, keys in lower case, request as a text."""
    payload = dict(raw["protoPayload"])
    payload["requestJson"], payload["responseJson"] = (
        json.dumps(payload.pop("request")),
        json.dumps(payload.pop("response", {})),
    )
    lower = {key: value for key, value in raw.items() if key != "protoPayload"}
    return {**lower, "protopayload_auditlog": {key.lower(): value for key, value in payload.items()}}


ENVELOPES = {
    "alone": lambda raw: raw,
    "list": lambda raw: [raw],
    "logging": lambda raw: {"entries": [raw], "nextPageToken": "t"},
    "push": lambda raw: {"message": {"data": base64.b64encode(json.dumps(raw).encode()).decode()}, "subscription": "s"},
    "pull": lambda raw: {
        "receivedMessages": [{"ackId": "a", "message": {"data": base64.b64encode(json.dumps(raw).encode()).decode()}}]
    },
    "cloudevent": lambda raw: {"specversion": "1.0", "type": "google.cloud.audit.log.v1.written", "data": raw},
    "cloudevent in text": lambda raw: {"specversion": "1.0", "data": json.dumps(raw)},
    "bigquery": in_bigquery,
}


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("name", RECORDED)
def test_an_entry_says_the_same_in_any_envelope(envelope: str, name: str) -> None:
    """A file, a list, Logging's answer, Pub/Sub's push and pull, a CloudEvent, and BigQuery's columns."""
    wrapped = json.dumps(ENVELOPES[envelope](RECORDED[name]))
    [entry] = read_entries(wrapped)
    assert isinstance(entry, FeedEntry)
    assert entry.as_json() == read(RECORDED[name]).as_json()


def test_lines_of_json_are_read_and_a_torn_one_is_named() -> None:
    """An export to a bucket that broke off in its last line."""
    lines = "\n".join(json.dumps(RECORDED[name]) for name in ("042", "043", "064"))
    first, second, torn = read_entries(lines[:-20])
    assert isinstance(first, FeedEntry)
    assert isinstance(second, FeedEntry)
    assert isinstance(torn, Torn)
    assert torn.why.startswith("line 3 is no JSON")


@pytest.mark.parametrize(
    "torn", ["", "{", "[]garbage", '{"a": 1}', "[1]", '{"message": {"data": "%%"}}', "\x00\xff", "null"]
)
def test_what_is_torn_or_foreign_is_named(torn: str) -> None:
    """Nothing crashes, and nothing passes for an entry."""
    [part] = read_entries(torn)
    assert isinstance(part, Torn)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2020-05-15 17:55:19.303000000", datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        ("2020-05-15 17:55:19.303 UTC", datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        ("2025-06-13T16:14:55.930548627Z", datetime(2025, 6, 13, 16, 14, 55, 930548, tzinfo=UTC)),
        ("2021-04-15T10:43:09.881-07:00", datetime(2021, 4, 15, 17, 43, 9, 881000, tzinfo=UTC)),
        ("1589565319.303", datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        (1589565319303, datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        (1589565319303000, datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        ({"seconds": "1589565319", "nanos": 303000000}, datetime(2020, 5, 15, 17, 55, 19, 303000, tzinfo=UTC)),
        ("0000-00-00T00:00:00.000Z", None),
        ("9999-12-31T23:59:59Z", None),  # neither a grace nor another zone can be added to it
        ({"seconds": "253402300799"}, None),
        ("...", None),
        (True, None),
    ],
)
def test_times_of_any_tool_are_read(written: Any, read_as: datetime | None) -> None:
    """Cloud Logging, BigQuery, Athena and protobuf write them so; a time without an offset is UTC."""
    assert moment(written) == read_as


def test_number_in_an_operation_counts_only_where_it_can_be_true() -> None:
    """A made-up operation id: the entry's own time is better than a moment years away."""
    raw = changed("064", operation={"id": "operation-0000000000000-0-0-0", "last": True})
    assert read(raw).at == moment(raw["timestamp"])
    raw = changed("064", operation={"id": "operation-9999999999999-0-0-0", "last": True})
    assert read(raw).at == moment(raw["timestamp"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, one in inner for place in places(one, (*at, key)))]


@given(name=st.sampled_from(sorted(RECORDED)), data=st.data(), value=JSON)
def test_any_field_may_be_of_any_type(name: str, data: st.DataObject, value: Any) -> None:
    """Replaces one field of a recorded entry by anything: it is read as it can be, or not at all."""
    raw: Any = copy.deepcopy(RECORDED[name])
    place = data.draw(st.sampled_from(places(raw)[1:]))
    part = raw
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    entry = read_entry(raw)
    assert entry is None or json.dumps(entry.as_json())


@given(data=st.binary(max_size=60) | st.text(max_size=60) | JSON.map(json.dumps))
def test_nothing_that_is_read_raises(data: bytes | str) -> None:
    """Bytes, texts and JSON of any kind."""
    for one in read_entries(data):
        assert isinstance(one, FeedEntry | Torn)
