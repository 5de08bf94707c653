"""Google's advice on zones without history: looked up next to the turns, and only to compare zones."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.job_rows import RECIPE

from costguard.deadlines.hazards import PRIOR_PREEMPTIONS, hazards_of
from costguard.deadlines.history import counts_of_rates
from costguard.errors import BadAnswer, CloudError, PermissionDenied, RateLimited
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import CapacityAdvice, Recipe, SpotListPrice
from costguard.model.money import Money

L4 = replace(RECIPE, machine_type="g2-standard-4", gpu_type="nvidia-l4", attaches_gpus=False)
ZONES = ["us-central1-a", "us-central1-b", "us-central1-c"]
RATES = {"us-central1-a": 0.05, "us-central1-b": 0.15, "us-central1-c": None}
PATIENCE = timedelta(seconds=30)  # a lookup that is done is not waited for


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


SCORES = {"us-central1": 0.9, "us-east1": None}


@dataclass
class Google:
    """Answers about regions, and counts the questions; what it lacks it refuses."""

    asked: list[tuple[str, ProvisioningModel]] = field(default_factory=list)
    priced: list[str] = field(default_factory=list)
    error: CloudError | None = None

    def advise(self, _project: str, region: str, _type: str, model: ProvisioningModel) -> CapacityAdvice | None:
        self.asked.append((region, model))
        if self.error is not None:
            raise self.error
        score = SCORES[region]
        return CapacityAdvice(score, f"{region}-a") if score is not None else None

    def prices(self, _project: str, region: str, _type: str) -> list[SpotListPrice]:
        self.priced.append(region)
        day = timedelta(days=1)
        old, new, later = NOW - 2 * day, NOW - day, NOW + day
        prices = (
            SpotListPrice(old, new, Money(3)),
            SpotListPrice(new, NOW, Money(4)),
            SpotListPrice(later, None, Money(9)),
        )
        return list(prices)


def _capacity(advice: RegionAdvice, model: ProvisioningModel, later: timedelta = timedelta()) -> dict[str, float]:
    answers = advice.capacity("lab", L4, SCORES, model, NOW + later)
    return {region: one.obtainability for region, one in answers.items()}


def test_a_region_is_asked_about_once_an_hour() -> None:
    """Spot and flex-start are questions of their own; what Google does not know is not asked again either."""
    google = Google()
    advice = RegionAdvice(google.advise, google.prices, PATIENCE)
    spot, flex = ProvisioningModel.SPOT, ProvisioningModel.FLEX_START
    for minutes in (0, 30, 59):
        assert _capacity(advice, spot, timedelta(minutes=minutes)) == {"us-central1": 0.9}
    assert sorted(google.asked) == [("us-central1", spot), ("us-east1", spot)]
    assert _capacity(advice, flex) == {"us-central1": 0.9}
    _capacity(advice, spot, timedelta(minutes=60))
    assert len(google.asked) == 6


@pytest.mark.parametrize("error", [PermissionDenied("No."), BadAnswer("Nonsense."), RateLimited("Later.")])
def test_no_answer_is_no_advice(error: CloudError) -> None:
    """Nothing is known whatever goes wrong at Google, and it is asked again after an hour at the earliest."""
    google = Google(error=error)
    advice = RegionAdvice(google.advise, google.prices, PATIENCE)
    for minutes in (0, 59):
        assert _capacity(advice, ProvisioningModel.SPOT, timedelta(minutes=minutes)) == {}
    assert len(google.asked) == 2


@pytest.mark.parametrize("model", [ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND])
def test_advice_is_about_spot_and_flex_start_alone(model: ProvisioningModel) -> None:
    """On-demand VMs and reservations are not asked about."""
    google = Google()
    assert _capacity(RegionAdvice(google.advise, google.prices, PATIENCE), model) == {}
    assert google.asked == []


@pytest.mark.parametrize("unknown", [RECIPE, replace(L4, machine_type="ct6e-standard-4t")])
def test_types_without_advice_are_not_asked_about(unknown: Recipe) -> None:
    """N1 with attached GPUs and TPUs: Google has neither advice nor prices of them."""
    google = Google()
    advice = RegionAdvice(google.advise, google.prices, PATIENCE)
    assert advice.capacity("lab", unknown, SCORES, ProvisioningModel.SPOT, NOW) == {}
    assert advice.spot_prices("lab", unknown, SCORES, NOW) == {}
    assert (google.asked, google.priced) == ([], [])


def test_price_is_the_newest_that_has_begun() -> None:
    """The last whole day counts where today has no record yet; a later price does not."""
    google = Google()
    advice = RegionAdvice(google.advise, google.prices, PATIENCE)
    for minutes in (0, 59):
        prices = advice.spot_prices("lab", L4, SCORES, NOW + timedelta(minutes=minutes))
        assert prices == dict.fromkeys(SCORES, Money(4))
    assert sorted(google.priced) == sorted(SCORES)
    assert advice.spot_prices("lab", L4, SCORES, NOW - timedelta(days=7)) == {}
