"""Google's capacity advice as the prior of flex-start requests: weighed against one's own, and never needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.jobs.decide.buy.test_plan import Scripted
from tests.jobs.list_prices import price_list
from tests.jobs.rows.history.test_zone_advice import L4
from tests.jobs.world import RECIPE, world

from costguard.deadlines.situation import Act
from costguard.deadlines.waits import NEVER_GRANTED, NO_WAITS, WaitCounts, grant_hazards
from costguard.errors import CloudError
from costguard.jobs.act.planning import Planning
from costguard.jobs.rows.history.zone_advice import RegionAdvice
from costguard.ledger import prices
from costguard.model.buying import bought
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import CapacityAdvice


def test_the_stated_prior_is_kept_without_advice() -> None:
    """A fifth is never granted, whether that is said or not."""
    assert NO_WAITS.never == NEVER_GRANTED
    assert grant_hazards(NO_WAITS) == grant_hazards(WaitCounts(never=NEVER_GRANTED))


@pytest.mark.parametrize("never", [0.0, 1.0])
def test_certain_advice_has_finite_chances(never: float) -> None:
    """Nothing is certain, but that what Google calls impossible is not granted."""
    hazards = grant_hazards(WaitCounts(never=never))
    assert all(0 <= hazard < 20 for hazard in hazards)
    assert (sum(hazards) == 0) == (never == 1)


def test_requests_of_ones_own_outweigh_the_advice() -> None:
    """Hundreds of requests leave nothing of the advice; without any, it decides."""
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
    """A region that is refused, or silent, counts for nothing."""

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


@pytest.mark.parametrize(("obtainability", "never"), [(0.1, 0.9), (None, NEVER_GRANTED)])
def test_plans_on_the_real_turn_have_the_advice(sqlite_url: str, obtainability: float | None, never: float) -> None:
    """A job that may ask for flex-start is planned with it; where Google refuses, as without."""

    def advise(project: str, region: str, machine_type: str, model: ProvisioningModel) -> CapacityAdvice:
        if obtainability is None:
            raise CloudError("Refused.")
        return CapacityAdvice(obtainability, f"{region}-a")

    policy = Scripted(Act.WAIT)
    with world(sqlite_url) as w:
        flex = [
            replace(one, key=replace(one.key, provisioning_model=ProvisioningModel.FLEX_START))
            for one in price_list()
            if one.key.provisioning_model is ProvisioningModel.STANDARD and one.key.resource.startswith(("n1:", "gpu:"))
        ]
        with w.database.write() as connection:
            prices.add(connection, flex, w.clock.now())
        capacity = RegionAdvice(advise, lambda *_: (), timedelta(seconds=30))
        w.turn._planning = Planning(policy, capacity=capacity)
        recipe = replace(bought(RECIPE, "cheapest"), machine_type="g2-standard-8", attaches_gpus=False)
        w.submit(recipe=recipe, work=timedelta(hours=2), deadline=w.clock.now() + timedelta(hours=20))
        w.step()
        offers = [one.flex for one in policy.seen]
        assert [offer.waits.never for offer in offers if offer is not None] == pytest.approx([never] * len(offers))
        assert offers


def test_a_job_is_launched_where_google_says_that_spot_is_to_be_had(sqlite_url: str) -> None:
    """The regions cost almost the same, and nothing was seen of either; without advice, the cheaper comes first."""
    chances = {"us-central1": 0.1, "us-east1": 0.9}

    def advise(project: str, region: str, machine_type: str, model: ProvisioningModel) -> CapacityAdvice:
        return CapacityAdvice(chances[region], f"{region}-a")

    with world(sqlite_url) as w:
        w.turn._planning = Planning(capacity=RegionAdvice(advise, lambda *_: (), timedelta(seconds=30)))
        w.submit(recipe=replace(RECIPE, attaches_gpus=False))
        w.submit("j2")
        w.until_up("cg-j1-1")
        w.until_up("cg-j2-1")
        assert w.vm("cg-j1-1").zone == "us-east1-c"
        assert w.vm("cg-j2-1").zone == "us-central1-a", "of N1 with attached GPUs, Google says nothing"
