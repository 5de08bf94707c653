"""The only place from which a VM is stopped or deleted: never one that a group or a service of Google keeps."""

from __future__ import annotations

from typing import Protocol

from costguard.errors import KeptByAnother
from costguard.keepers.reading import keeper_of, keeper_of_own, why_unknown
from costguard.model.observation import Sighting


class Stops(Protocol):
    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str: ...


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
) -> str:
    """Begin to stop the VM that was just looked at. The operation's id. Raises CloudError; see `Actuator.stop`.

    `address` is its project, zone and name. `is_own`: an attempt of ours launched it, by its id. `by_rule`: no user
    asked for it, so that a VM whose keeper is not known is left alone.
    """
    _check(address, seen, is_own)
    if by_rule and not is_own and (doubt := why_unknown(seen.origin)):
        raise KeptByAnother(f"Who keeps {address[2]} is not known, so no rule stops it. {doubt}")
    return google.stop(*address[:2], seen.gce_id, request_id)


def delete(
    google: Deletes, address: tuple[str, str, str], seen: Sighting, request_id: str, *, is_own: bool = False
) -> str:
    """Begin to delete the VM that was just looked at. As `stop`."""
    _check(address, seen, is_own)
    return google.delete(*address[:2], seen.gce_id, request_id)


def _check(address: tuple[str, str, str], seen: Sighting, is_own: bool) -> None:
    project, zone, name = address
    keeper = keeper_of_own(seen.origin) if is_own else keeper_of(seen.labels, seen.origin, zone)
    if keeper is not None:
        raise KeptByAnother(keeper.refusal(name, project))
