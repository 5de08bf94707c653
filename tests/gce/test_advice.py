"""Google's record of preemptions by zone, through its own client: what is asked, and what its answers mean."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.gce.conftest import Connect
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.errors import CloudError
from costguard.gce.client import ComputeCloud
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
