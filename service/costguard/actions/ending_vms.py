"""The only place from which a VM is stopped or deleted: one that another keeps by its keeper's own stop, or never."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from costguard.errors import KeptByAnother
from costguard.keepers.reading import keeper_of, keeper_of_own, why_unknown
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.observation import Sighting


class Stops(Protocol):
    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str: ...


class StopsKept(Protocol):
    def stop_kept(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class OwnStops:
    """The keepers whose own stop the settings allow, and the client that asks it of Google."""

    google: StopsKept
    kinds: Collection[KeeperKind]


class Deletes(Protocol):
    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str: ...


def stop(
    google: Stops,
    address: tuple[str, str, str],
    seen: Sighting,
    request_id: str,
    *,
    is_own: bool = False,
    by_rule: bool = False,
    own_stops: OwnStops | None = None,
) -> str:
    """Begin to stop the VM that was just looked at. The operation's id. Raises CloudError; see `Actuator.stop`.

    `address` is its project, zone and name. `is_own`: an attempt of ours launched it, by its id. `by_rule`: no user
    asked for it, so that a VM whose keeper is not known is left alone. With `own_stops`, a VM of such a keeper is
    stopped by its keeper's own API, and never by `instances.stop`.
    """
    keeper = _keeper(address, seen, is_own)
    if keeper is not None and own_stops is not None and keeper.is_stopped_by(own_stops.kinds):
        return own_stops.google.stop_kept(keeper, address, seen.gce_id, request_id)
    _refuse(keeper, address)
    if by_rule and not is_own and (doubt := why_unknown(seen.origin)):
        raise KeptByAnother(f"Who keeps {address[2]} is not known, so no rule stops it. {doubt}")
    return google.stop(*address[:2], seen.gce_id, request_id)


def delete(
    google: Deletes, address: tuple[str, str, str], seen: Sighting, request_id: str, *, is_own: bool = False
) -> str:
    """Begin to delete the VM that was just looked at. As `stop`."""
    _refuse(_keeper(address, seen, is_own), address)
    return google.delete(*address[:2], seen.gce_id, request_id)


def _keeper(address: tuple[str, str, str], seen: Sighting, is_own: bool) -> Keeper | None:
    return keeper_of_own(seen.labels, seen.origin) if is_own else keeper_of(seen.labels, seen.origin, address[1])


def _refuse(keeper: Keeper | None, address: tuple[str, str, str]) -> None:
    project, _, name = address
    if keeper is not None:
        raise KeptByAnother(keeper.refusal(name, project))
