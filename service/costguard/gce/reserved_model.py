"""Reservations that VMs run on: what they are made of, and which provisioning model Google wants for their VMs.

A VM on an ordinary reservation is STANDARD with an affinity to it. RESERVATION_BOUND is for a reservation "with either
a calendar reservation mode or a dense deployment type" alone (`gcloud compute instances create --help`,
--provisioning-model): Google ends its VMs with it ("About instances that use the reservation-bound model").
"""

from __future__ import annotations

import re
from typing import Any

from costguard.errors import BadAnswer, NotFound, RequestRefused
from costguard.gce.fields import Garbled, last_part, moment_or_none
from costguard.gce.machine_types import accelerators_of
from costguard.gce.official import Official
from costguard.model.launch import ReservedVms

# As `ReservationAffinity.values` of the API writes it: a name, or that of another project's shared reservation; in a
# dense one, a block may follow.
_REFERENCE = re.compile(
    r"(?:projects/(?P<project>[^/]+)/reservations/)?(?P<name>[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)"
    r"(?:/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)


def is_bound(official: Official, project: str, zone: str, reference: str) -> bool:
    """Tells whether VMs on this reservation are RESERVATION_BOUND, and end with it.

    Raises RequestRefused where there is none that VMs can name, and otherwise CloudError where Google does not say it.
    """
    owner, name = _named(project, reference)
    try:
        reservation = official.reservation(owner, zone, name)
    except NotFound as error:
        raise RequestRefused(
            error.message, f"List what is reserved there: gcloud compute reservations list --project={owner}"
        ) from None
    if not reservation.specific_reservation_required:
        # Google's words: skypilot-org/skypilot issue 3327.
        raise RequestRefused(
            f"Reservation {name} in {zone} of project {owner} can not be targeted as "
            "specificReservationRequired is not set.",
            "On-demand VMs of its machine type use it by themselves while it has room: launch on demand, or make it "
            "again with `gcloud compute reservations create --require-specific-reservation`.",
        )
    if reservation.deployment_type == "DENSE":
        return True
    # Only a future reservation tells its mode, and in calendar mode it always gives its reservation an end.
    if not reservation.delete_at_time:
        return False
    return any(_made_it(one, name) for one in official.future_reservations(owner, zone))


def read_reservation(official: Official, project: str, zone: str, reference: str) -> ReservedVms | None:
    """Returns the reservation of this name in the zone; None where there is none.

    Raises RequestRefused where the reference is no name, and otherwise CloudError where Google does not answer.
    """
    owner, name = _named(project, reference)
    try:
        read = official.reservation(owner, zone, name)
    except NotFound:
        return None
    reserved = read.specific_reservation
    made = reserved.instance_properties
    gpus = [
        {"acceleratorType": gpu.accelerator_type, "acceleratorCount": gpu.accelerator_count}
        for gpu in made.guest_accelerators
    ]
    try:
        gpu_type, gpu_count = accelerators_of(gpus) if gpus else ("", 0)
        ends_at = moment_or_none(read.delete_at_time)
    except Garbled as error:
        raise BadAnswer(f"Reading reservation {name} in {zone} of project {owner}: {error}.") from None
    return ReservedVms(
        machine_type=last_part(made.machine_type) if made.machine_type else "",
        gpu_type=gpu_type,
        gpu_count=gpu_count,
        count=reserved.count,
        in_use=reserved.in_use_count,
        must_be_named=read.specific_reservation_required,
        ends_at=ends_at,
    )


def _named(project: str, reference: str) -> tuple[str, str]:
    """Returns the project that has the reservation, and its name."""
    named = _REFERENCE.fullmatch(reference)
    if named is None:
        raise RequestRefused(
            f"{reference!r} names no reservation.",
            "Write the reservation's name, or projects/PROJECT/reservations/NAME where another project shares it.",
        )
    return named["project"] or project, named["name"]


def _made_it(future: Any, name: str) -> bool:
    """Tells whether a future reservation in calendar mode made the reservation of this name."""
    made = {last_part(url) for url in future.status.auto_created_reservations}
    return future.reservation_mode == "CALENDAR" and name in {*made, future.reservation_name}
