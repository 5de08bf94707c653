"""Google's history of assets says what VMs were: states in the form of recorded ones, names that recur, torn states."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at

from costguard.ledger.feed.asset_request import name_of, past_vms, request_of_asset
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.observation import AssetState

PROJECT, ZONE = "acme-training", "us-central1-a"
NAME = name_of(PROJECT, ZONE, "vm-71")
KEY = InstanceKey(PROJECT, "71")
LINK = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}"
DISK = f"//compute.googleapis.com/projects/{PROJECT}/zones/{ZONE}/disks/vm-71"


def vm(moment: str = "11:00", gce_id: str = "71", **more: Any) -> AssetState:
    """Makes a state with the fields that a recorded one has (of 2021): the resource as its own API shows it,
    times with the offset of Pacific time, numbers as texts, and no type of a disk.
    """
    disk = {
        "source": f"{LINK}/disks/vm-71",
        "diskSizeGb": "100",
        "boot": True,
        "autoDelete": True,
        "type": "PERSISTENT",
    }
    resource = {
        "id": gce_id,
        "name": "vm-71",
        "creationTimestamp": "2026-11-02T03:00:00.500-08:00",
        "machineType": f"{LINK}/machineTypes/n1-standard-8",
        "zone": LINK,
        "scheduling": {"automaticRestart": True, "onHostMaintenance": "MIGRATE", "preemptible": False},
        "networkInterfaces": [{"accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]}],
        "disks": [disk],
        "status": "STAGING",
        **more,
    }
    return AssetState(NAME, resource, at(moment))


def disk(**more: Any) -> AssetState:
    made_at = "2026-11-02T03:00:00.900-08:00"
    resource = {"id": "9", "selfLink": f"{LINK}/disks/vm-71", "type": f"{LINK}/diskTypes/pd-balanced", "sizeGb": "100"}
    return AssetState(DISK, {**resource, "creationTimestamp": made_at, **more}, at("11:00"))


def gone(moment: str) -> AssetState:
    return AssetState(NAME, {}, at(moment), deleted=True)


def test_a_state_says_what_its_vm_was() -> None:
    """It has machine type, way of buying and addresses; the disk's type is in the state of the disk."""
    past = past_vms({KEY: NAME}, [gone("11:05"), vm(lastStartTimestamp="2026-11-02T03:00:10-08:00")])[KEY]
    assert past.disks == (DISK,)
    kept = request_of_asset(past, [disk()])
    assert kept is not None
    request = kept.request
    assert (kept.zone, request.machine_type, request.provisioning) == (
        ZONE,
        "n1-standard-8",
        ProvisioningModel.STANDARD,
    )
    assert request.external_addresses == 1
    assert [(one.name, one.size_gib, one.disk_type, one.boot) for one in request.disks] == [
        ("vm-71", 100, "pd-balanced", True)
    ]
    assert (request.ran_from, request.gone_at) == (at("11:00:10"), at("11:05"))


def test_spot_is_in_the_scheduling() -> None:
    """Two fields may say it, and each is read."""
    for scheduling in ({"preemptible": True}, {"provisioningModel": "SPOT"}):
        kept = request_of_asset(past_vms({KEY: NAME}, [vm(scheduling=scheduling)])[KEY], [])
        assert kept is not None
        assert kept.request.provisioning is ProvisioningModel.SPOT


def test_another_vm_of_the_same_name_is_another() -> None:
    """Ids are no names: one that was made after it under its name says nothing of it, but that it was gone by then."""
    states = [vm("11:00"), gone("11:02"), vm("11:10", gce_id="72"), gone("11:30")]
    vms = past_vms({KEY: NAME, InstanceKey(PROJECT, "72"): NAME, InstanceKey(PROJECT, "73"): NAME}, states)
    assert vms.keys() == {KEY, InstanceKey(PROJECT, "72")}
    assert (vms[KEY].gone_at, vms[InstanceKey(PROJECT, "72")].gone_at) == (at("11:02"), at("11:30"))


def test_the_project_of_a_name_is_an_id_or_a_number() -> None:
    """Asset Inventory uses either."""
    state = vm()
    numbered = AssetState(NAME.replace(PROJECT, "163454223397"), state.resource, state.from_at)
    assert past_vms({KEY: NAME}, [numbered]).keys() == {KEY}


def test_a_disk_that_was_there_before_is_left_out() -> None:
    """An insert that attaches a disk does not make it: it may be in the account of another VM."""
    past = past_vms({KEY: NAME}, [vm()])[KEY]
    for state in (
        disk(creationTimestamp="2026-11-01T03:00:00-08:00"),
        disk(selfLink=f"{LINK}/disks/other"),
        disk(type=""),
    ):
        kept = request_of_asset(past, [state])
        assert kept is not None
        assert kept.request.disks == ()


def test_what_a_state_does_not_say_is_unknown() -> None:
    """There is no request without a machine type or a zone, and no price is made up."""
    assert past_vms({KEY: NAME}, [vm(machineType=None)]) == {}
    assert request_of_asset(past_vms({KEY: NAME}, [vm(zone=None)])[KEY], []) is None
    assert past_vms({KEY: NAME}, [gone("11:05")]) == {}


_ANY = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=4)), max_size=2)
)


@given(
    field=st.sampled_from(
        ["id", "machineType", "zone", "disks", "scheduling", "creationTimestamp", "networkInterfaces"]
    ),
    value=_ANY,
    has_time=st.booleans(),
)
def test_a_torn_state_harms_nothing(field: str, value: Any, has_time: bool) -> None:
    """Any field may be replaced by anything: what is read is a request or nothing."""
    state = vm(**{field: value})
    state = state if has_time else AssetState(state.name, state.resource, None)
    for past in past_vms({KEY: NAME}, [state, gone("11:05")]).values():
        kept = request_of_asset(past, [disk(**{field: value})])
        assert kept is None or isinstance(kept.request.ran_from, datetime | None)
