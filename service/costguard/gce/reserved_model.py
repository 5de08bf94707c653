"""Reservations that VMs run on: which provisioning model Google wants for them.

A VM on an ordinary reservation is STANDARD with an affinity to it. RESERVATION_BOUND is for a reservation "with either
a calendar reservation mode or a dense deployment type" alone (`gcloud compute instances create --help`,
--provisioning-model): Google ends its VMs with it ("About instances that use the reservation-bound model").
"""

from __future__ import annotations

import re
from typing import Any

from costguard.errors import NotFound, RequestRefused
from costguard.gce.fields import last_part
from costguard.gce.official import Official

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
    named = _REFERENCE.fullmatch(reference)
    if named is None:
        raise RequestRefused(
            f"{reference!r} names no reservation.",
            "Write the reservation's name, or projects/PROJECT/reservations/NAME where another project shares it.",
        )
    owner = named["project"] or project
    try:
        reservation = official.reservation(owner, zone, named["name"])
    except NotFound as error:
        raise RequestRefused(
            error.message, f"List what is reserved there: gcloud compute reservations list --project={owner}"
        ) from None
    if not reservation.specific_reservation_required:
        # Google's words: skypilot-org/skypilot issue 3327.
        raise RequestRefused(
            f"Reservation {named['name']} in {zone} of project {owner} can not be targeted as "
            "specificReservationRequired is not set.",
            "On-demand VMs of its machine type use it by themselves while it has room: launch on demand, or make it "
            "again with `gcloud compute reservations create --require-specific-reservation`.",
        )
    if reservation.deployment_type == "DENSE":
        return True
    # Only a future reservation tells its mode, and in calendar mode it always gives its reservation an end.
    if not reservation.delete_at_time:
        return False
    return any(_made_it(one, named["name"]) for one in official.future_reservations(owner, zone))


def _made_it(future: Any, name: str) -> bool:
    """Tells whether a future reservation in calendar mode made the reservation of this name."""
    made = {last_part(url) for url in future.status.auto_created_reservations}
    return future.reservation_mode == "CALENDAR" and name in {*made, future.reservation_name}
