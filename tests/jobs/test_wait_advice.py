"""Google's capacity advice as the prior of flex-start requests: weighed against one's own, and never needed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from tests.jobs.test_zone_advice import L4

from costguard.deadlines.waits import NEVER_GRANTED, NO_WAITS, WaitCounts, grant_hazards
from costguard.errors import CloudError
from costguard.jobs.rows.zone_advice import RegionAdvice
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import CapacityAdvice


def test_the_stated_prior_is_kept_without_advice() -> None:
    assert NO_WAITS.never == NEVER_GRANTED
    assert grant_hazards(NO_WAITS) == grant_hazards(WaitCounts(never=NEVER_GRANTED))


@pytest.mark.parametrize("never", [0.0, 1.0])
def test_certain_advice_has_finite_chances(never: float) -> None:
    hazards = grant_hazards(WaitCounts(never=never))
    assert all(0 <= hazard < 20 for hazard in hazards)
    assert (sum(hazards) == 0) == (never == 1)


def test_requests_of_ones_own_outweigh_the_advice() -> None:
    seen = WaitCounts(granted=(400.0,) * 4, outlasted=(400.0,) * 4)
    doubtful, sure = (grant_hazards(seen._replace(never=never)) for never in (0.9, 0.1))
    assert doubtful == pytest.approx(sure, rel=0.02)
    assert grant_hazards(WaitCounts(never=0.9))[1] < grant_hazards(WaitCounts(never=0.1))[1] / 2


@pytest.mark.parametrize(
    ("answers", "never"),
    [({"us-east1": 0.3, "us-west1": 0.6}, 0.7), ({"us-west1": 0.6}, 0.4), ({}, NEVER_GRANTED)],
)
def test_the_lowest_answer_is_the_prior_and_no_answer_changes_nothing(
    answers: Mapping[str, float], never: float
) -> None:
    def advise(project: str, region: str, machine_type: str, model: ProvisioningModel) -> CapacityAdvice:
        assert model is ProvisioningModel.FLEX_START
        if region not in answers:
            raise CloudError("Refused.")
        return CapacityAdvice(answers[region], f"{region}-b")

    advice = RegionAdvice(advise, lambda *_: (), timedelta(seconds=30))
    zones = ["us-east1-b", "us-west1-a", "us-west1-b"]
    own = WaitCounts(granted=(3.0, 0.0, 0.0, 0.0))
    made = advice.waits(own, "p", L4, zones, datetime(2026, 8, 1, tzinfo=UTC))
    assert made.never == pytest.approx(never)
    assert made.granted == own.granted
