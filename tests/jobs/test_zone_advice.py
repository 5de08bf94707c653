"""Google's advice on zones without history: looked up next to the turns, and only to compare zones."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.job_rows import RECIPE

from costguard.deadlines.hazards import PRIOR_PREEMPTIONS, hazards_of
from costguard.deadlines.history import counts_of_rates
from costguard.errors import PermissionDenied
from costguard.jobs.rows.zone_advice import ZoneAdvice

L4 = replace(RECIPE, machine_type="g2-standard-4", gpu_type="nvidia-l4", attaches_gpus=False)
ZONES = ["us-central1-a", "us-central1-b", "us-central1-c"]
RATES = {"us-central1-a": 0.05, "us-central1-b": 0.15, "us-central1-c": None}


def _known(advice: ZoneAdvice, zones: int) -> set[str]:
    """Asks until so many zones have an answer: the lookups run in a thread of their own."""
    waiting, zones_answered = threading.Event(), set[str]()
    for _ in range(3000):
        zones_answered = set(advice.counts("lab", L4, ZONES, NOW))
        if len(zones_answered) >= zones:
            break
        waiting.wait(0.01)
    return zones_answered


def test_a_turn_never_waits_and_a_zone_is_asked_for_once_a_day() -> None:
    """The first turn gets nothing; later ones what was found, without what Google does not know."""
    requested: list[str] = []
    gate = threading.Event()

    def read(_project: str, zone: str, _machine_type: str) -> float | None:
        gate.wait(30)
        requested.append(zone)
        return RATES[zone]

    advice = ZoneAdvice(read)
    assert advice.counts("lab", L4, ZONES, NOW) == {}
    gate.set()
    assert _known(advice, 2) == {"us-central1-a", "us-central1-b"}
    assert sorted(requested) == ZONES
    advice.counts("lab", L4, ZONES, NOW + timedelta(hours=25))
    assert _known(advice, 2) == {"us-central1-a", "us-central1-b"}


def test_what_google_refuses_is_not_known() -> None:
    """A missing permission leaves the prior; N1 with attached GPUs and custom types are not asked for at all."""
    was_called = threading.Event()

    def refuse(_project: str, _zone: str, _machine_type: str) -> float | None:
        was_called.set()
        raise PermissionDenied("No.")

    advice = ZoneAdvice(refuse)
    assert advice.counts("lab", RECIPE, ZONES, NOW) == {}
    assert advice.counts("lab", replace(L4, machine_type="n2-custom-4-8192"), ZONES, NOW) == {}
    assert not was_called.is_set()
    assert advice.counts("lab", L4, ZONES, NOW) == {}
    assert was_called.wait(30)
    assert advice.counts("lab", L4, ZONES, NOW) == {}


def test_rates_compare_zones_and_leave_their_mean_at_the_prior() -> None:
    """A zone with half the mean rate is better than the prior, and one alone is like it."""
    counts = counts_of_rates({"a": 0.05, "b": 0.15})
    first = [hazards_of(counts[zone]).preemption[0] for zone in ("a", "b")]
    assert first[0] < PRIOR_PREEMPTIONS[0] < first[1]
    assert sum(first) / 2 == pytest.approx(PRIOR_PREEMPTIONS[0])
    assert hazards_of(counts_of_rates({"a": 0.4})["a"]).preemption == pytest.approx(PRIOR_PREEMPTIONS)
    assert counts_of_rates({"a": 0.0}) == {}
