"""Checks what Google accepts of flex-start VMs and of VMs on reservations.

Rules: Google, "About Flex-start VMs" and "Compute Engine provisioning models"; `gcloud compute instances create
--help`, --provisioning-model and --reservation. The fields are those of a request that Google accepted
(GoogleCloudPlatform/magic-modules, resource_compute_instance_test.go.tmpl). No record of its refusals was found: their
words are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costguard_sandbox.gce.errors import invalid

_SERIES = frozenset({"a2", "a3", "a4", "g2", "g4", "h4d", "ct5p", "ct6e", "tpu7x"})
_MOST_WAIT_S = 7200
_LEAST_RUN_S, _MOST_RUN_S = 600, 7 * 86_400
_WAIT = "resource.params.requestValidForDuration"
_KEY = "compute.googleapis.com/reservation-name"
_FIELD = "resource.reservationAffinity"


def check_flex_start(body: Mapping[str, Any], machine_type: str) -> None:
    """Raises Refused where a flex-start VM cannot be as the body says, or where another has its wait."""
    scheduling: Mapping[str, Any] = body.get("scheduling") or {}
    wait = (body.get("params") or {}).get("requestValidForDuration")
    if scheduling.get("provisioningModel") != "FLEX_START":
        if wait is not None:
            raise invalid(_WAIT, dict(wait), "Only for an instance whose provisioningModel is FLEX_START.")
        return
    if machine_type.partition("-")[0] not in _SERIES:
        why = f"Machine type {machine_type} is not supported by the provisioning model FLEX_START."
        raise invalid("resource.scheduling.provisioningModel", "FLEX_START", why)
    seconds = _seconds(_WAIT, wait) if wait is not None else 0
    if not 0 <= seconds <= _MOST_WAIT_S:
        raise invalid(f"{_WAIT}.seconds", seconds, f"Must be at most {_MOST_WAIT_S} seconds.")
    _check_end(scheduling)
    affinity = str((body.get("reservationAffinity") or {}).get("consumeReservationType") or "NO_RESERVATION")
    if affinity != "NO_RESERVATION":
        why = "Must be NO_RESERVATION for an instance whose provisioningModel is FLEX_START."
        raise invalid("resource.reservationAffinity.consumeReservationType", affinity, why)


def _check_end(scheduling: Mapping[str, Any]) -> None:
    field = "resource.scheduling.maxRunDuration"
    limit = scheduling.get("maxRunDuration")
    if limit is None:
        raise invalid(field, "", "Required for an instance whose provisioningModel is FLEX_START.")
    seconds = _seconds(field, limit)
    if not _LEAST_RUN_S <= seconds <= _MOST_RUN_S:
        raise invalid(f"{field}.seconds", seconds, "Must be between 10 minutes and 7 days for FLEX_START.")
    for key, allowed in (("onHostMaintenance", "TERMINATE"), ("automaticRestart", False), ("preemptible", False)):
        if scheduling.get(key, allowed) != allowed:
            why = f"Must be {str(allowed).lower() if allowed is False else allowed} for FLEX_START."
            raise invalid(f"resource.scheduling.{key}", scheduling[key], why)


def _seconds(field: str, given: Mapping[str, Any]) -> int:
    try:
        return int(given.get("seconds", 0))
    except ValueError:
        raise invalid(f"{field}.seconds", given["seconds"], "Must be a whole number.") from None


def check_affinity(body: Mapping[str, Any]) -> None:
    """Raises Refused where a VM cannot use a reservation as the body says."""
    affinity: Mapping[str, Any] = body.get("reservationAffinity") or {}
    model = (body.get("scheduling") or {}).get("provisioningModel")
    kind = affinity.get("consumeReservationType") or "ANY_RESERVATION"
    if kind == "SPECIFIC_RESERVATION" and (affinity.get("key") != _KEY or len(affinity.get("values") or ()) != 1):
        raise invalid(_FIELD, _shown(affinity), f"Must have the key {_KEY} and the name of one reservation.")
    if kind == "SPECIFIC_RESERVATION" and model == "SPOT":
        raise invalid(_FIELD, _shown(affinity), "A Spot VM cannot use a reservation.")
    if model == "RESERVATION_BOUND" and kind != "SPECIFIC_RESERVATION":
        raise invalid(_FIELD, _shown(affinity), "Must name a reservation for the provisioning model RESERVATION_BOUND.")


def _shown(affinity: Mapping[str, Any]) -> str:
    return json.dumps(dict(affinity), indent=2)
