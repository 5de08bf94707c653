"""Reads reservations, and the future reservations that Google makes them of: unused ones bill, and some have an end.

A reservation has no labels (compute v1, revision 20261106): what its description has in the form `owner=ana` is read in
their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from costguard.errors import CloudError
from costguard.gce.fields import UNREADABLE, last_part, moment, moment_or_none, number, short, word
from costguard.gce.machine_types import MachineShape, accelerators_of
from costguard.gce.pages import AggregatedList, Page
from costguard.gce.session import Deadline, Http
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.observation import LooseKind, LooseThing, PlannedReservation, UnreadList

ShapeOf = Callable[[str, str], MachineShape | None]  # of a zone and a machine type; None: not known

_MADE_OF: Final = (
    "instanceProperties(machineType,guestAccelerators(acceleratorType,acceleratorCount),localSsds/diskSizeGb)"
)
RESERVATIONS: Final = AggregatedList(
    "reservations",
    "compute#reservationAggregatedList",
    f"name,description,creationTimestamp,deleteAtTime,specificReservation(count,inUseCount,{_MADE_OF})",
)
_PLANNED: Final = AggregatedList(
    "futureReservations",
    "compute#futureReservationsAggregatedListResponse",
    "name,description,creationTimestamp,reservationMode,timeWindow,autoCreatedReservationsDeleteTime,"
    f"status(procurementStatus,autoCreatedReservations),specificSkuProperties(totalCount,{_MADE_OF})",
)
_OVER: Final = frozenset({"CANCELLED", "DECLINED", "FAILED"})
_PAIR: Final = re.compile(r"(?<![\w-])([a-z][a-z0-9_-]*)=([\w@-]+(?:\.[\w@-]+)*)")


def planned_reservations(
    http: Http, project: str, deadline: Deadline, shape_of: ShapeOf, unread: list[UnreadList]
) -> tuple[list[PlannedReservation], set[tuple[str, str]]]:
    """Returns future reservations, and the reservations that calendar mode made, as (scope, name).

    Never raises a CloudError: what could not be read is added to `unread`. Drafts that came to nothing are left out.
    """
    kind = LooseKind.FUTURE_RESERVATION
    plans: list[PlannedReservation] = []
    calendar: set[tuple[str, str]] = set()
    problems: list[str] = []
    try:
        for page in _PLANNED.pages(http, project, deadline):
            unread += unread_parts(page, project, kind)
            for scope, members in page.holdings:
                for raw in members:
                    try:
                        # One whose plan cannot be read has made its reservations all the same.
                        calendar |= _made_in_calendar_mode(raw)
                        plan = _plan(project, scope, raw, shape_of)
                        plans += [plan] if plan is not None else []
                    except UNREADABLE as error:
                        named = raw.get("name") if isinstance(raw, dict) else raw
                        problems.append(f"{short(named)}: {error!r}")
    except CloudError as error:
        unread.append(UnreadList(project, kind, str(error), permission_of(kind)))
    unread += not_understood(project, kind, "future reservations", problems)
    return plans, calendar


def permission_of(kind: LooseKind) -> str:
    """Names the permission that a list of Compute Engine takes."""
    return f"compute.{kind.collection}.list"


def unread_parts(page: Page, project: str, kind: LooseKind) -> Iterator[UnreadList]:
    for scope, why in page.unread.items():
        reason = f"{scope or 'a part'} of project {project} could not be read: {why}."
        yield UnreadList(project, kind, reason, permission_of(kind))


def not_understood(project: str, kind: LooseKind, named: str, problems: Sequence[str]) -> Iterator[UnreadList]:
    """Yields one for all things of a list, `named` in words, that could not be understood; the first says why."""
    if problems:
        many = "One" if len(problems) == 1 else str(len(problems))
        why = f"{many} of the {named} of project {project} could not be understood: {problems[0]}."
        yield UnreadList(project, kind, why, permission_of(kind))


def _made_in_calendar_mode(raw: Mapping[str, Any]) -> set[tuple[str, str]]:
    urls: Sequence[Any] = (raw.get("status") or {}).get("autoCreatedReservations") or ()
    return {_place_and_name(word(url)) for url in urls} if raw.get("reservationMode") == "CALENDAR" else set()


def _plan(project: str, scope: str, raw: Mapping[str, Any], shape_of: ShapeOf) -> PlannedReservation | None:
    state = word((raw.get("status") or {}).get("procurementStatus") or "PROCUREMENT_STATUS_UNSPECIFIED")
    wanted = raw.get("specificSkuProperties")
    if not wanted or state in _OVER:
        return None  # of storage pools or aggregates, or never to be
    window = raw.get("timeWindow") or {}
    starts_at = moment(window["startTime"])
    machine = wanted.get("instanceProperties") or {}
    machine_type = last_part(machine["machineType"]) if machine else ""
    count = number(wanted.get("totalCount") or 0)
    return PlannedReservation(
        project=project,
        scope=scope,
        name=word(raw["name"]),
        what=f"{count:,} {machine_type or 'VMs of a template'}",
        is_calendar=raw.get("reservationMode") == "CALENDAR",
        state=state.lower(),
        starts_at=starts_at,
        ends_at=_end(window, starts_at),
        reservation_ends_at=moment_or_none(raw.get("autoCreatedReservationsDeleteTime")),
        count=count,
        region=region_of(scope),
        shape=shape(machine_type, machine, shape_of(scope.removeprefix("zones/"), machine_type)) if machine else None,
        labels=labels_of(raw.get("description")),
    )


def _end(window: Mapping[str, Any], starts_at: datetime) -> datetime | None:
    """Either the end is given, or the duration in seconds, which the API writes as a string."""
    if window.get("endTime"):
        return moment(window["endTime"])
    seconds = (window.get("duration") or {}).get("seconds")
    return starts_at + timedelta(seconds=number(seconds)) if seconds is not None else None


def _place_and_name(url: str) -> tuple[str, str]:
    *_, zone, _, name = url.split("/")
    return f"zones/{zone}", name


def reservation_of(
    project: str, scope: str, raw: Mapping[str, Any], shape_of: ShapeOf, calendar: Collection[tuple[str, str]]
) -> LooseThing | None:
    """The unused part of a reservation; None where all of it is used. Raises what a garbled answer raises.

    `calendar`: those that calendar mode made, which have prices of their own.
    """
    specific = raw.get("specificReservation")
    if not specific:
        return None  # an aggregate one: it is of TPUs, and says its use otherwise
    count, used = number(specific["count"]), number(specific.get("inUseCount") or 0)
    if used >= count:
        return None
    made, name = specific["instanceProperties"], word(raw["name"])
    machine_type = last_part(made["machineType"])
    is_calendar = (scope, name) in calendar
    return LooseThing(
        kind=LooseKind.RESERVATION,
        project=project,
        scope=scope,
        name=name,
        what=f"{count - used:,} of {count:,} reserved {machine_type} unused{', calendar mode' if is_calendar else ''}",
        created_at=moment(raw["creationTimestamp"]),
        labels=labels_of(raw.get("description")),
        region=region_of(scope),
        quantity=Fraction(count - used),
        shape=shape(machine_type, made, shape_of(scope.removeprefix("zones/"), machine_type)),
        used=used,
        ends_at=moment_or_none(raw.get("deleteAtTime")),
        model=ProvisioningModel.RESERVATION_BOUND if is_calendar else ProvisioningModel.STANDARD,
    )


def labels_of(description: object) -> Mapping[str, str]:
    """`{"owner": "ana"}` of `For the H100 run, owner=ana`."""
    return dict(_PAIR.findall(str(description or "")))


def shape(machine_type: str, made: Mapping[str, Any], machine: MachineShape | None) -> Shape:
    vcpus, memory_mib, gpu_type, gpu_count, built_in_gib = machine or (0, 0, None, 0, 0)
    if accelerators := made.get("guestAccelerators"):
        gpu_type, gpu_count = accelerators_of(accelerators)
    scratch_gib = sum(number(disk["diskSizeGb"]) for disk in made.get("localSsds") or ())
    return Shape(machine_type, vcpus, memory_mib, gpu_type, gpu_count, max(scratch_gib, built_in_gib))


def region_of(scope: str) -> str:
    """Returns the region of `zones/us-central1-a` or `regions/us-central1`; `global` as it is."""
    place = scope.partition("/")[2]
    return place.rpartition("-")[0] if scope.startswith("zones/") else place or scope
