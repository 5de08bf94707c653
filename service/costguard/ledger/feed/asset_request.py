"""Reads from the history of assets what VMs were that no listing and no entry told of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from costguard.ledger.feed.kept_requests import KeptRequest
from costguard.ledger.feed.request import RequestedDisk, read_request
from costguard.ledger.feed.values import amount, is_true, items, last_part, moment, number_text, text
from costguard.ledger.feed.values import field as key
from costguard.model.instance import InstanceKey
from costguard.model.observation import AssetState

_COMPUTE = "//compute.googleapis.com/"
_LINK = "/projects/"
_MADE_TOGETHER = timedelta(minutes=1)  # a VM and the disks that its insert made


def name_of(project: str, zone: str, vm: str) -> str:
    """The full name of a VM: cloud.google.com/asset-inventory/docs/resource-name-format."""
    return f"{_COMPUTE}projects/{project}/zones/{zone}/instances/{vm}"


@dataclass(frozen=True, slots=True)
class PastVm:
    """A VM as the first of its states shows it, and when it was seen to be gone. `disks` are names of assets."""

    state: AssetState
    gone_at: datetime | None
    disks: tuple[str, ...]


def past_vms(wanted: Mapping[InstanceKey, str], states: Iterable[AssetState]) -> dict[InstanceKey, PastVm]:
    """Finds VMs by their numbers among the states of assets. `wanted` are the assets' names.

    A name may have been another VM's before and after. One that is gone has a state without a resource.
    """
    by_number: dict[str, list[AssetState]] = {}
    gone: dict[str, list[datetime]] = {}
    for state in sorted(states, key=_order):
        number = number_text(key(state.resource, "id"))
        if state.from_at is not None:
            gone.setdefault(state.name, []).append(state.from_at)
        if number is not None and not state.deleted:
            by_number.setdefault(number, []).append(state)
    vms = {}
    for vm, name in wanted.items():
        mine = [one for one in by_number.get(vm.gce_id, ()) if _place(one.name) == _place(name)]
        described = [one for one in mine if last_part(key(one.resource, "machineType")) is not None]
        if described:
            last = mine[-1].from_at
            later = [at for at in gone.get(mine[-1].name, ()) if last is not None and at > last]
            vms[vm] = PastVm(described[0], min(later, default=None), tuple(_disks_of(described[0])))
    return vms


def request_of_asset(vm: PastVm, disks: Sequence[AssetState]) -> KeptRequest | None:
    """Returns what a VM was. `disks` are the states of disks, which alone tell their types.

    None where its resource does not say what it was.
    """
    resource = vm.state.resource
    request = read_request(resource, "insert")
    zone = last_part(key(resource, "zone"))
    if request is None or zone is None:
        return None
    created_at = moment(key(resource, "creationTimestamp"))
    started_at = moment(key(resource, "lastStartTimestamp"))
    persistent = [
        _disk(one, disks, created_at) for one in items(key(resource, "disks")) if key(one, "type") != "SCRATCH"
    ]
    request = replace(
        request,
        disks=tuple(disk for disk in persistent if disk is not None),
        ran_from=started_at or created_at or vm.state.from_at,
        gone_at=vm.gone_at,
    )
    return KeptRequest(zone, request)


def _disks_of(state: AssetState) -> Iterator[str]:
    for disk in items(key(state.resource, "disks")):
        link = text(key(disk, "source"))
        if link is not None and _LINK in link:
            yield _COMPUTE + link[link.index(_LINK) + 1 :]


def _disk(raw: Mapping[str, object], states: Sequence[AssetState], created_at: datetime | None) -> RequestedDisk | None:
    """A disk that is older than its VM was not made with it, and stays in another account: it may be anybody's."""
    link = text(key(raw, "source")) or ""
    name = last_part(link)
    for state in states:
        made_at = moment(key(state.resource, "creationTimestamp"))
        is_mine = name is not None and _path(text(key(state.resource, "selfLink")) or state.name) == _path(link)
        if not is_mine or made_at is None or (created_at is not None and made_at < created_at - _MADE_TOGETHER):
            continue
        assert name is not None
        size = amount(key(raw, "diskSizeGb")) or amount(key(state.resource, "sizeGb"))
        kind = last_part(key(state.resource, "type"))
        if kind is not None:
            return RequestedDisk(name, size, kind, is_true(key(raw, "boot")), is_true(key(raw, "autoDelete")))
    return None


def _order(state: AssetState) -> datetime:
    return state.from_at or datetime.min.replace(tzinfo=UTC)


def _place(name: str) -> str:
    """`zones/Z/instances/N`: the project in a name is an id or a number."""
    return name.split("/", 5)[-1]


def _path(link: str) -> str:
    """`projects/P/zones/Z/disks/N` of a link or a full name."""
    return link[link.find(_LINK) + 1 :]
