"""A look at a project that answers reads pages, masks, disks, and compares them with the look before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from tests.gce.bodies import ZONE, Reply, cloud_of, disk, instance, page
from tests.gce.conftest import START, Connect
from tests.gce.server import Answer, Asked, json_answer

from costguard.gce.client import ComputeCloud
from costguard.model.instance import Status
from costguard.model.observation import Observation


def names(observation: Observation) -> list[str]:
    return sorted(seen.name for seen in observation.instances)


def test_a_whole_look(connect: Connect) -> None:
    """Instances, disks and operations are read; nothing is unread; the times are those before the asking."""
    setup = connect(cloud_of())
    look = setup.cloud.observe("p", None)
    assert look.project == "p"
    assert names(look) == ["trainer"]
    assert look.instances[0].disks[0].disk_type == "pd-balanced"
    assert (look.instances_complete, look.unread, look.unread_zones) == (True, (), frozenset())
    assert look.read_at == START + timedelta(seconds=1)
    assert look.operations_through_at == START + timedelta(seconds=2)


def test_an_empty_project(connect: Connect) -> None:
    """A project without VMs is read whole, and is empty."""
    look = connect(cloud_of(instances=page("instances", {}), disks=page("disks", {}))).cloud.observe("p", None)
    assert (look.instances, look.instances_complete, look.unread) == ((), True, ())


def test_what_is_asked(connect: Connect) -> None:
    """The largest pages, a mask with everything that paging needs, and no credentials for a foreign endpoint."""
    setup = connect(cloud_of())
    setup.cloud.observe("p", None)
    for request in setup.server.requests:
        assert request.path.startswith("/compute/v1/projects/p/aggregated/")
        assert request.query["maxResults"] == "500"
        assert request.query["fields"].startswith("kind,nextPageToken,unreachables,")
        assert "authorization" not in request.headers
    assert {one.query.get("orderBy") for one in setup.server.requests} == {None, "creationTimestamp desc"}


def test_operations_come_after_instances(connect: Connect) -> None:
    """Operations are asked for only when the instances are in: a change that was seen has its operation."""
    first = page("instances", {f"zones/{ZONE}": [instance()]}, nextPageToken="2")
    last = page("instances", {f"zones/{ZONE}": [instance("second", "102")]})
    setup = connect(cloud_of(instances=[first, last]))
    setup.cloud.observe("p", None)
    paths = setup.server.paths()
    assert [path for path in paths if path != "disks"] == ["instances", "instances", "operations"]
    assert paths.count("disks") == 1


def test_pages_are_joined(connect: Connect) -> None:
    """A zone's VMs may span pages, and every token is followed."""
    pages = [
        page("instances", {f"zones/{ZONE}": [instance("a", "1")]}, nextPageToken="t1"),
        page("instances", {f"zones/{ZONE}": [instance("b", "2")], "zones/us-east1-b": []}, nextPageToken="t2"),
        page("instances", {"zones/us-east1-b": [instance("c", "3", "us-east1-b")]}),
    ]
    setup = connect(cloud_of(instances=pages))
    look = setup.cloud.observe("p", None)
    assert names(look) == ["a", "b", "c"]
    assert {seen.zone for seen in look.instances} == {ZONE, "us-east1-b"}
    tokens = [one.query.get("pageToken") for one in setup.server.requests if one.path.endswith("instances")]
    assert tokens == [None, "t1", "t2"]
    assert look.requests == len(setup.server.requests) == 5  # and one each for disks and operations


def test_a_vm_on_two_pages_is_one(connect: Connect) -> None:
    """A VM that moved between pages while they were read is seen once, as it was last."""
    pages = [
        page("instances", {f"zones/{ZONE}": [instance()]}, nextPageToken="t1"),
        page("instances", {f"zones/{ZONE}": [instance(status="STOPPING")]}),
    ]
    look = connect(cloud_of(instances=pages)).cloud.observe("p", None)
    assert [seen.status.value for seen in look.instances] == ["stopping"]


def test_an_unchanged_vm_is_the_same_object(connect: Connect) -> None:
    """An unchanged VM costs no conversion in the next look; a changed one is new, and one that went is gone."""
    looks = [
        page("instances", {f"zones/{ZONE}": [instance("a", "1"), instance("b", "2"), instance("c", "3")]}),
        page("instances", {f"zones/{ZONE}": [instance("a", "1"), instance("b", "2", status="STOPPING")]}),
    ]
    cloud = connect(cloud_of(instances=looks)).cloud
    first = {seen.name: seen for seen in cloud.observe("p", None).instances}
    second = {seen.name: seen for seen in cloud.observe("p", None).instances}
    assert second.keys() == {"a", "b"}
    assert second["a"] is first["a"]
    assert second["b"].fingerprint != first["b"].fingerprint


_WORDS = ["RUNNING"] * 3 + ["STOPPING"] * 3


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Notes the bodies of pages of instances that are parsed."""
    bodies: list[bytes] = []
    loads = orjson.loads

    def counted(body: bytes) -> Any:
        if b"compute#instanceAggregatedList" in body:
            bodies.append(body)
        return loads(body)

    monkeypatch.setattr(orjson, "loads", counted)
    return bodies


def test_a_page_with_the_same_bytes_is_not_parsed(connect: Connect, parsed: list[bytes]) -> None:
    """The same objects are its VMs again; of two pages, the one that changed alone is parsed, and read as ever."""
    fingerprint: dict[str, Any] = {"metadata": {"fingerprint": "f"}}
    two = [instance("a", "1", **fingerprint), instance("b", "2", **fingerprint)]
    lasts = [page("instances", {f"zones/{ZONE}": [instance("c", "3", status=word, **fingerprint)]}) for word in _WORDS]
    pages = [
        (page("instances", {f"zones/{ZONE}": two}, nextPageToken=f't"{number}='), last)
        for number, last in enumerate(lasts)
    ]
    setup = connect(cloud_of(instances=[one for look in pages for one in look]))
    seen, counts = [], []
    for _ in range(6):
        before = len(parsed)
        seen.append({one.name: one for one in setup.cloud.observe("p", None).instances})
        counts.append(len(parsed) - before)
    assert counts == [2, 2, 0, 1, 1, 0]  # in the first look they are new, and in the second unchanged
    assert all(look["a"] is seen[0]["a"] and look["b"] is seen[0]["b"] for look in seen)
    assert [look["c"].status for look in seen] == [Status.RUNNING] * 3 + [Status.STOPPING] * 3
    assert seen[5]["c"] is seen[3]["c"]
    tokens = [one.query.get("pageToken") for one in setup.server.requests if one.path.endswith("instances")]
    assert tokens[1::2] == [f't"{number}=' for number in range(6)]  # each answer's own, though it alone differs


def test_a_page_is_parsed_again_once_its_vms_are_others(connect: Connect, parsed: list[bytes]) -> None:
    """A VM whose disk was found resized comes whole in the same look, for which its page is read once more."""
    disks = [page("disks", {f"zones/{ZONE}": [disk(sizeGb=size)]}) for size in ("50", "80")]
    elapsed = [0.0]
    vms = page("instances", {f"zones/{ZONE}": [instance(metadata={"fingerprint": "f"})]})
    cloud = connect(cloud_of(instances=vms, disks=disks), monotonic=lambda: elapsed[0]).cloud
    sizes, counts = [], []
    for number in range(6):
        elapsed[0] = 600.0 * (number >= 3)
        before = len(parsed)
        sizes.append(cloud.observe("p", None).instances[0].disks[0].size_gib)
        counts.append(len(parsed) - before)
    assert sizes == [50, 50, 50, 80, 80, 80]
    assert counts == [1, 1, 0, 1, 1, 0]


def test_a_vm_that_went_and_came_back_is_read_again(connect: Connect, parsed: list[bytes]) -> None:
    """The bytes of a page say nothing of VMs that the last look did not show."""
    there = page("instances", {f"zones/{ZONE}": [instance()]})
    gone = page("instances", {})
    setup = connect(cloud_of(instances=[there, there, there, gone, there, there]))
    looks = [names(setup.cloud.observe("p", None)) for _ in range(6)]
    assert looks == [["trainer"]] * 3 + [[]] + [["trainer"]] * 2
    assert len(parsed) == 5


def test_two_projects_do_not_mix(connect: Connect) -> None:
    """The same numeric id in another project is another VM."""
    cloud = connect(cloud_of()).cloud
    assert [cloud.observe(p, None).instances[0].key.project for p in ("p", "q", "p")] == ["p", "q", "p"]


def test_a_disk_that_was_resized(connect: Connect) -> None:
    """A change of a disk alone changes its VM, as soon as the disks are listed again."""
    disks = [page("disks", {f"zones/{ZONE}": [disk(sizeGb=size)]}) for size in ("50", "80")]
    elapsed = [0.0]
    cloud = connect(cloud_of(disks=disks), monotonic=lambda: elapsed[0]).cloud
    before = cloud.observe("p", None).instances[0]
    elapsed[0] += 600
    after = cloud.observe("p", None).instances[0]
    assert (before.disks[0].size_gib, after.disks[0].size_gib) == (50, 80)
    assert before.fingerprint != after.fingerprint


def test_a_disk_list_that_fails_forgets_nothing(connect: Connect) -> None:
    """The disk's details stand while the list of disks cannot be read, and the VM is unchanged."""
    disks: list[Reply] = [page("disks", {f"zones/{ZONE}": [disk()]}), Answer(b"not JSON")]
    elapsed = [0.0]
    cloud = connect(cloud_of(disks=disks), monotonic=lambda: elapsed[0]).cloud
    first = cloud.observe("p", None)
    elapsed[0] += 600
    second = cloud.observe("p", None)
    assert second.instances[0] is first.instances[0]
    assert [part.scope for part in second.unread] == ["disks"]


def test_disks_are_listed_again_when_a_vm_changed(connect: Connect) -> None:
    """While none did, the last whole list serves; a new VM, a failed list or ten minutes have them listed again."""
    lists = [
        page("instances", {f"zones/{ZONE}": [instance(status=word)]}) for word in ("RUNNING", "RUNNING", "STOPPING")
    ]
    whole = page("disks", {f"zones/{ZONE}": [disk()]})
    disks: list[Reply] = [whole, Answer(b"not JSON"), whole]
    setup = connect(cloud_of(disks=disks, instances=lists))
    disk_requests = []
    for _ in range(4):
        setup.cloud.observe("p", None)
        disk_requests.append(sum(request.path.endswith("/disks") for request in setup.server.requests))
    assert disk_requests == [1, 1, 2, 3]


def test_a_changed_vm_keeps_its_disks_facts(connect: Connect) -> None:
    """A VM that changed while the disks could not be read is still known to have the disk that it had."""
    disks: list[Reply] = [page("disks", {f"zones/{ZONE}": [disk()]}), Answer(b"not JSON")]
    instances = [page("instances", {f"zones/{ZONE}": [instance(status=word)]}) for word in ("RUNNING", "STOPPING")]
    cloud = connect(cloud_of(disks=disks, instances=instances)).cloud
    cloud.observe("p", None)
    seen = cloud.observe("p", None).instances[0]
    assert (seen.status.value, seen.disks[0].disk_type) == ("stopping", "pd-balanced")


def test_a_machine_type_that_has_to_be_asked_for(connect: Connect) -> None:
    """A type that no rule knows is read from Compute Engine once, through the official client."""
    lists = cloud_of(
        instances=page("instances", {f"zones/{ZONE}": [instance(machineType="zones/z/machineTypes/x9-1")]})
    )
    answers = {
        "kind": "compute#machineType",
        "name": "x9-1",
        "guestCpus": 6,
        "memoryMb": 24576,
        "accelerators": [{"guestAcceleratorType": "nvidia-b9", "guestAcceleratorCount": 3}],
        "bundledLocalSsds": {"partitionCount": 2, "defaultInterface": "NVME"},
    }

    def answer(request: Asked) -> Answer:
        return json_answer(answers) if "/machineTypes/" in request.path else lists(request)

    setup = connect(answer)
    first, second = (setup.cloud.observe("p", None).instances[0] for _ in range(2))
    assert (first.shape.vcpus, first.shape.memory_mib) == (6, 24576)
    assert (first.shape.gpu_type, first.shape.gpu_count, first.shape.local_ssd_gib) == ("nvidia-b9", 3, 750)
    assert second is first
    paths = [one.path for one in setup.server.requests if "machineTypes" in one.path]
    assert paths == [f"/compute/v1/projects/p/zones/{ZONE}/machineTypes/x9-1"]


def test_a_machine_type_that_is_learnt_later(connect: Connect) -> None:
    """A VM whose type could not be looked up is priced as soon as the look-up works, though nothing else changed."""
    lists = cloud_of(
        instances=page("instances", {f"zones/{ZONE}": [instance(machineType="zones/z/machineTypes/x9-1")]})
    )
    replies = [
        Answer(b"{}", 503),
        json_answer({"kind": "compute#machineType", "name": "x9-1", "guestCpus": 6, "memoryMb": 24576}),
    ]
    now = [0.0]
    setup = connect(
        lambda request: replies.pop(0) if "/machineTypes/" in request.path else lists(request), monotonic=lambda: now[0]
    )
    assert not setup.cloud.observe("p", None).instances[0].shape.is_known
    now[0] = 100.0
    assert setup.cloud.observe("p", None).instances[0].shape.is_known


def test_compressed_answers(connect: Connect) -> None:
    """Google compresses what it sends; it is asked for and understood."""
    import gzip

    body = gzip.compress(orjson.dumps(page("instances", {f"zones/{ZONE}": [instance()]})))
    setup = connect(cloud_of(instances=Answer(body, headers={"Content-Encoding": "gzip"})))
    assert names(setup.cloud.observe("p", None)) == ["trainer"]
    assert "gzip" in setup.server.requests[0].headers["accept-encoding"]
    assert "gzip" in setup.server.requests[0].headers["user-agent"]


def test_an_unchanged_vm_is_told_by_its_fingerprint_alone(connect: Connect) -> None:
    """A look keeps hashes and what the ledger asks: nothing of a hundred thousand VMs stays whole until the next."""
    made = instance(labels={"costguard-attempt": "trainer"})
    cloud = connect(cloud_of(instances=page("instances", {f"zones/{ZONE}": [made]}))).cloud
    (whole,) = ComputeCloud.observe(cloud, "p", None).instances
    later = ComputeCloud.observe(cloud, "p", None)
    (kept,) = later.unchanged
    assert later.instances == ()
    assert (kept.gce_id, kept.fingerprint, kept.zone) == (whole.key.gce_id, whole.fingerprint, whole.zone)
    assert (kept.bills_machine, kept.attempt) == (True, whole.labels["costguard-attempt"])
    assert kept.may_have_gpu is (whole.shape.gpu_count > 0)


def test_a_vm_that_is_to_be_forgotten_comes_whole_once(connect: Connect, parsed: list[bytes]) -> None:
    """It is unchanged again then. Nothing is read of the others, and an id that nobody has is none's."""
    fingerprint: dict[str, Any] = {"metadata": {"fingerprint": "f"}}
    vms = [instance("a", "1", **fingerprint), instance("b", "2", **fingerprint)]
    cloud = connect(cloud_of(instances=page("instances", {f"zones/{ZONE}": vms}))).cloud
    looks = [ComputeCloud.observe(cloud, "p", None) for _ in range(3)]
    cloud.forget("p", ["2", "404"])
    cloud.forget("another", ["1"])
    looks += [ComputeCloud.observe(cloud, "p", None) for _ in range(3)]
    assert [[one.name for one in look.instances] for look in looks] == [["a", "b"], [], [], ["b"], [], []]
    assert [sorted(one.gce_id for one in look.unchanged) for look in looks[2:5]] == [["1", "2"], ["1"], ["1", "2"]]
    assert looks[3].instances[0] == looks[0].instances[1]
    assert len(parsed) == 4  # the first two looks, the one after `forget`, and the one that finds it unchanged
