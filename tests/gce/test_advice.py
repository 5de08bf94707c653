"""Google's record of preemptions by zone, through its own client: what is asked, and what its answers mean."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.conftest import Connect
from tests.gce.server import Answer, Asked, google_error, json_answer
from tests.sandbox.gce.conformance.discovery import problems

from costguard.errors import BadAnswer, CloudError
from costguard.gce.client import ComputeCloud
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import CapacityAdvice, SpotListPrice, is_advised
from costguard.model.money import Money
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

# As seen of the live API: github.com/alexei-led/spotinfo, internal/spot/live_risk_test.go.
RECORDED = {
    "machineType": "x",
    "preemptionHistory": [
        {"interval": {"startTime": "2026-07-01T07:00:00Z", "endTime": "2026-07-02T07:00:00Z"}, "preemptionRate": 0.08},
        {"interval": {"startTime": "2026-07-02T07:00:00Z", "endTime": "2026-07-03T07:00:00Z"}, "preemptionRate": 0.12},
    ],
}


def test_the_mean_of_the_recorded_days(connect: Connect) -> None:
    """The request is a POST to the region of the zone, in the words of the documents."""
    setup = connect(lambda _asked: json_answer(RECORDED))
    assert setup.cloud.preemption_rate("demo", "us-central1-a", "g2-standard-4") == pytest.approx(0.1)
    (request,) = setup.server.requests
    assert request.path == "/compute/v1/projects/demo/regions/us-central1/advice/capacityHistory"


@pytest.mark.parametrize("body", [{}, {"preemptionHistory": []}, {"preemptionHistory": [{"interval": {}}]}])
def test_no_record_is_not_zero(connect: Connect, body: dict[str, object]) -> None:
    """A type that Google has no history of, or days without a rate, are not known."""
    setup = connect(lambda _asked: json_answer(body))
    assert setup.cloud.preemption_rate("demo", "us-central1-a", "n1-standard-4") is None


def test_a_refusal_is_an_error_of_the_cloud(connect: Connect) -> None:
    """The error says what to grant."""

    def answer(_asked: Asked) -> Answer:
        return google_error(403, "forbidden", "Required 'compute.advice.capacityHistory' permission")

    with pytest.raises(CloudError, match="capacityHistory"):
        connect(answer).cloud.preemption_rate("demo", "us-central1-a", "g2-standard-4")


def test_the_sandbox_answers_as_documented() -> None:
    """A share for a type that is offered, none for N1, whose GPUs are attached."""
    world = World(ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC)))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=lambda _seconds: False)) as cloud:
        rate = cloud.preemption_rate("demo", "us-central1-a", "g2-standard-4")
        assert rate is not None
        assert 0 < rate < 0.3
        assert cloud.preemption_rate("demo", "us-central1-a", "n1-standard-4") is None


# The shape that a public guide shows of the live API (its project and zone shortened).
ADVISED: dict[str, Any] = {
    "recommendations": [
        {
            "scores": {"obtainability": 0.9, "estimatedUptime": "3600s"},
            "shards": [
                {
                    "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-c",
                    "machineType": "a3-highgpu-8g",
                    "instanceCount": 1,
                    "provisioningModel": "SPOT",
                }
            ],
        }
    ]
}


@pytest.mark.parametrize("model", [ProvisioningModel.SPOT, ProvisioningModel.FLEX_START])
def test_capacity_advice_is_asked_as_documented(connect: Connect, model: ProvisioningModel) -> None:
    """A POST to the region with a body of the discovery document's schema, for one VM in the best zone."""
    setup = connect(lambda _asked: json_answer(ADVISED))
    advice = setup.cloud.capacity_advice("demo", "us-central1", "a3-highgpu-8g", model)
    assert advice == CapacityAdvice(0.9, "us-central1-c", timedelta(hours=1))
    (request,) = setup.server.requests
    assert request.path == "/compute/v1/projects/demo/regions/us-central1/advice/capacity"
    assert problems(request.body, "CapacityAdviceRequest") == []
    assert request.body["instanceProperties"]["scheduling"]["provisioningModel"] == model.name
    assert request.body["distributionPolicy"] == {"targetShape": "ANY_SINGLE_ZONE"}


_SHARDS = ADVISED["recommendations"][0]["shards"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"recommendations": []},
        {"recommendations": [{"scores": {}, "shards": _SHARDS}]},
        {"recommendations": [{"scores": {"obtainability": 0.9}}]},
    ],
)
def test_no_recommendation_is_no_advice(connect: Connect, body: dict[str, Any]) -> None:
    """Nothing is known without a score or a zone, and an absent score is no zero."""
    setup = connect(lambda _asked: json_answer(body))
    assert setup.cloud.capacity_advice("demo", "us-central1", "a3-highgpu-8g", ProvisioningModel.SPOT) is None


def test_score_of_zero_is_advice(connect: Connect) -> None:
    """Google says that the VM will not be had; a flex-start request has no uptime before preemption."""
    body = {"recommendations": [{"scores": {"obtainability": 0.0}, "shards": _SHARDS}]}
    setup = connect(lambda _asked: json_answer(body))
    advice = setup.cloud.capacity_advice("demo", "us-central1", "a3-highgpu-8g", ProvisioningModel.FLEX_START)
    assert advice == CapacityAdvice(0.0, "us-central1-c", None)


def test_score_that_is_none_is_a_bad_answer(connect: Connect) -> None:
    """The discovery document: "the score range is 0.0 through 1.0"."""
    body = {"recommendations": [{"scores": {"obtainability": 1.5}, "shards": _SHARDS}]}
    setup = connect(lambda _asked: json_answer(body))
    with pytest.raises(BadAnswer, match="obtainability"):
        setup.cloud.capacity_advice("demo", "us-central1", "a3-highgpu-8g", ProvisioningModel.SPOT)


def _record(begin: str | None, end: str | None, units: str, nanos: int, currency: str = "USD") -> dict[str, Any]:
    interval = {key: time for key, time in (("startTime", begin), ("endTime", end)) if time}
    return {"interval": interval, "listPrice": {"currencyCode": currency, "units": units, "nanos": nanos}}


def test_prices_are_read_to_the_nano_dollar(connect: Connect) -> None:
    """`CapacityHistoryResponsePriceRecord` of the discovery document: `Money` in units and nanos; oldest first."""
    newer = _record("2026-11-02T08:00:00Z", None, "1", 927680000)
    older = _record("2026-11-01T08:00:00Z", "2026-11-02T08:00:00Z", "2", 1)
    body = {"priceHistory": [newer, older, _record(None, None, "3", 0, "EUR")]}
    assert problems(body, "CapacityHistoryResponse") == []
    setup = connect(lambda _asked: json_answer(body))
    day = datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert setup.cloud.spot_prices("demo", "us-central1", "a2-highgpu-1g") == [
        SpotListPrice(day, day + timedelta(days=1), Money(2_000_000_001)),
        SpotListPrice(day + timedelta(days=1), None, Money.of("1.92768")),
    ]
    (request,) = setup.server.requests
    assert problems(request.body, "CapacityHistoryRequest") == []
    assert (request.body["types"], request.body["locationPolicy"]) == (["PRICE"], {"location": "regions/us-central1"})


def test_price_without_a_time_that_can_be_read(connect: Connect) -> None:
    """An answer that makes no sense is an error of the cloud, which is no advice."""
    setup = connect(lambda _asked: json_answer({"priceHistory": [_record("yesterday", None, "1", 0)]}))
    with pytest.raises(CloudError, match="yesterday"):
        setup.cloud.spot_prices("demo", "us-central1", "a2-highgpu-1g")


def test_the_simulated_google_advises() -> None:
    """A score and a zone of the region for Spot and flex-start; little in a stockout; nothing for N1."""
    world = World(ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC)))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=lambda _seconds: False)) as cloud:
        for model in (ProvisioningModel.SPOT, ProvisioningModel.FLEX_START):
            advice = cloud.capacity_advice("demo", "us-central1", "a2-highgpu-1g", model)
            assert advice is not None
            assert advice.obtainability >= 0.5
            assert advice.zone.startswith("us-central1-")
            assert (advice.uptime is None) is (model is ProvisioningModel.FLEX_START)
        world.faults.add("stockout")
        world.faults.add("flex_start", never=True)
        for model in (ProvisioningModel.SPOT, ProvisioningModel.FLEX_START):
            short = cloud.capacity_advice("demo", "us-central1", "a2-highgpu-1g", model)
            assert short is not None
            assert short.obtainability == pytest.approx(0.1)
        with pytest.raises(CloudError, match="not supported"):
            cloud.capacity_advice("demo", "us-central1", "n1-standard-8", ProvisioningModel.SPOT)


def test_the_simulated_google_has_the_prices_of_its_catalogue() -> None:
    """An a2-highgpu-1g has 12 cores, 85 GiB and one A100 ("GPU machine types"): each at its Spot price, for 30 days."""
    world = World(ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC)))
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=lambda _seconds: False)) as cloud:
        prices = cloud.spot_prices("demo", "us-central1", "a2-highgpu-1g")
        core, memory, gpu = (
            world.prices.rate(part, "us-central1", True, world.now)[0]
            for part in ("a2:core", "a2:ram", "gpu:nvidia-tesla-a100")
        )
        assert len(prices) == 30
        assert {price.hourly for price in prices} == {Money(12 * core + 85 * memory + gpu)}
        assert cloud.spot_prices("demo", "us-central1", "n1-standard-8") == []


@pytest.mark.parametrize(
    ("machine_type", "attaches_gpus", "advised"),
    [
        ("a2-highgpu-1g", False, True),
        ("g2-standard-4", False, True),
        ("n1-standard-8", True, False),
        ("n2-custom-4-8192", False, False),
        ("custom-4-5120", False, False),
        ("ct6e-standard-4t", False, False),
        ("tpu7x-standard-4t", False, False),
    ],
)
def test_types_that_google_does_not_advise_on(machine_type: str, attaches_gpus: bool, advised: bool) -> None:
    """N1 with attached GPUs, custom types and TPUs, as the page on availability lists them."""
    assert is_advised(machine_type, attaches_gpus=attaches_gpus) is advised
