"""A training on a reservation, over HTTP: a full one is waited for, and the job runs once there is room."""

from __future__ import annotations

import json
import urllib.error
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.training_ground import PROJECT, TrainingWorld, ground, uninterrupted

from costguard_sandbox.gce.belongings import Belonging

ZONE = "us-central1-b"
OPTIONS = ("--steps", "40", "--every", "20")
_GPU = {"acceleratorType": f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}


def reserve(place: TrainingWorld, in_use: int, machine: str = "n1-standard-8", **fields: Any) -> Belonging:
    """A reservation of one VM in one of the preset's three zones."""
    made = {"machineType": machine, "guestAccelerators": [_GPU]}
    specific = {"count": "1", "inUseCount": str(in_use), "instanceProperties": made}
    given = {"status": "READY", "specificReservationRequired": True, "specificReservation": specific, **fields}
    now = place.world.clock.now()
    one = Belonging("reservation", PROJECT, ZONE, "train", now - timedelta(days=1), given)
    place.world.belongings.append(one)
    return one


@pytest.mark.long
def test_a_full_reservation_is_waited_for(tmp_path: Path) -> None:
    """The VM is refused in Google's words while another project's uses it; then it runs to its end on it."""
    with ground(tmp_path) as place:
        one = reserve(place, in_use=1)
        job = place.launch(*OPTIONS, overrides={"buy": "reserved:train"})
        place.wait(lambda: "no room on its reservation" in _job(place, job)["reason"], "the full reservation is said")
        assert _job(place, job)["state"] == "queued"
        one.fields["specificReservation"]["inUseCount"] = "0"
        finished = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
    assert place.result.read_text() == uninterrupted(tmp_path, *OPTIONS)
    outcomes = [attempt["outcome"] for attempt in finished["attempts"]]
    assert outcomes == ["stockout"] * (len(outcomes) - 1) + ["succeeded"]
    assert len(outcomes) > 1
    last = finished["attempts"][-1]
    assert (last["zone"], last["provisioning_model"]) == (ZONE, "reservation_bound")


def test_a_reservation_of_another_machine_is_refused_at_launch(tmp_path: Path) -> None:
    """Nothing is asked of Google for it but what it is."""
    with ground(tmp_path) as place:
        reserve(place, in_use=0, machine="n1-standard-4")
        with pytest.raises(urllib.error.HTTPError) as error:
            place.launch(*OPTIONS, overrides={"buy": "reserved:train"})
        problem = json.load(error.value)
    assert "is of n1-standard-4, and the job's VMs are n1-standard-8" in json.dumps(problem)
    assert place.vms == []


def _job(place: TrainingWorld, job: str) -> Any:
    return place.ask(f"jobs/{job}")["job"]
