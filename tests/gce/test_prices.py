"""The Cloud Billing Catalog, read over HTTP from a served one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from tests.resource_names import guards_key

from costguard.errors import PriceSourceError
from costguard.gce.prices import ESTIMATED, CatalogPrices
from costguard.gce.sku import prices_of_sku, subject
from costguard.ledger.price_gate import judge
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, Unit, without_commitment
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.catalogue.skus import skus_page

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Answer = Callable[[dict[str, str]], tuple[int, bytes]]


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A catalogue on a free port, and the parameters and headers that it was asked with."""
    requests: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            wanted = {name: values[0] for name, values in parse_qs(address.query).items()}
            requests.append({**wanted, "path": address.path, "key": self.headers.get("x-goog-api-key", "")})
            status, body = answer(wanted)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pages(*contents: object) -> Answer:
    """Each page leads to the next."""

    def answer(wanted: dict[str, str]) -> tuple[int, bytes]:
        at = int(wanted.get("pageToken", "0"))
        more = str(at + 1) if at + 1 < len(contents) else ""
        return 200, orjson.dumps({"skus": contents[at], "nextPageToken": more})

    return answer


def sku(
    description: str,
    nanos: int = 5,
    *,
    units: str = "0",
    usage: str = "OnDemand",
    unit: str = "h",
    regions: tuple[str, ...] = ("us-central1",),
    since: str = "2026-02-01T00:00:00Z",
    tiers: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    price = {"currencyCode": "USD", "units": units, "nanos": nanos}
    return {
        "skuId": "AAAA-BBBB-CCCC",
        "description": description,
        "category": {"resourceFamily": "Compute", "resourceGroup": "GPU", "usageType": usage},
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "effectiveTime": since,
                "pricingExpression": {
                    "usageUnit": unit,
                    "tieredRates": tiers or [{"startUsageAmount": 0, "unitPrice": price}],
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("description", "usage", "resource", "model"),
    [
        ("N1 Predefined Instance Core running in Americas", "OnDemand", "n1:core", STANDARD),
        ("Spot Preemptible N1 Predefined Instance Ram running in EMEA", "Preemptible", "n1:ram", SPOT),
        ("Preemptible N1 Predefined Instance Core running in Americas", "Preemptible", "n1:core", SPOT),
        ("A2 Instance Core running in Netherlands", "OnDemand", "a2:core", STANDARD),
        ("Spot Preemptible A3 Instance Ram running in Virginia", "Preemptible", "a3:ram", SPOT),
        ("N2D AMD Instance Core running in Americas", "OnDemand", "n2d:core", STANDARD),
        ("N2D AMD Custom Instance Ram running in Americas", "OnDemand", "n2d-custom:ram", STANDARD),
        ("Custom Instance Core running in Americas", "OnDemand", "n1-custom:core", STANDARD),
        ("Custom Extended Instance Ram running in Los Angeles", "OnDemand", "n1-custom-extended:ram", STANDARD),
        (
            "Spot Preemptible Custom Extended Instance Ram running in APAC",
            "Preemptible",
            "n1-custom-extended:ram",
            SPOT,
        ),
        ("N2 Custom Extended Instance Ram running in Americas", "OnDemand", "n2-custom-extended:ram", STANDARD),
        ("Compute optimized Core running in Americas", "OnDemand", "c2:core", STANDARD),
        ("Nvidia Tesla T4 GPU running in Americas", "OnDemand", "gpu:nvidia-tesla-t4", STANDARD),
        ("NVIDIA L4 Gpu running in Iowa", "OnDemand", "gpu:nvidia-l4", STANDARD),
        ("Nvidia Tesla A100 GPU running in Americas", "OnDemand", "gpu:nvidia-tesla-a100", STANDARD),
        ("Nvidia Tesla A100 80GB GPU running in Americas", "OnDemand", "gpu:nvidia-a100-80gb", STANDARD),
        (
            "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Columbus",
            "Preemptible",
            "gpu:nvidia-h100-80gb",
            SPOT,
        ),
        ("Nvidia H100 80GB Mega GPU running in Americas", "OnDemand", "gpu:nvidia-h100-mega-80gb", STANDARD),
        ("Nvidia Tesla P100 GPU running in Americas", "OnDemand", "gpu:nvidia-tesla-p100", STANDARD),
        ("Nvidia Tesla P4 GPU running in Americas", "OnDemand", "gpu:nvidia-tesla-p4", STANDARD),
        ("Storage PD Capacity", "OnDemand", "disk:pd-standard", STANDARD),
        ("Balanced PD Capacity in Netherlands", "OnDemand", "disk:pd-balanced", STANDARD),
        ("SSD backed PD Capacity in APAC", "OnDemand", "disk:pd-ssd", STANDARD),
        ("Hyperdisk Balanced Capacity in Iowa", "OnDemand", "disk:hyperdisk-balanced", STANDARD),
        ("SSD backed Local Storage", "OnDemand", "local-ssd", STANDARD),
        ("SSD backed Local Storage attached to Spot Preemptible VMs in Paris", "OnDemand", "local-ssd", SPOT),
        ("SSD backed Local Storage attached to Spot Preemptible VMs", "Preemptible", "local-ssd", SPOT),
        ("VM state: preserved memory in Netherlands", "OnDemand", "suspended-memory", STANDARD),
        ("External IP Charge on a Standard VM", "OnDemand", "external-ip", STANDARD),
        ("Static Ip Charge", "OnDemand", "static-ip", STANDARD),
        ("Static Ip Charge in Japan", "OnDemand", "static-ip", STANDARD),
        ("Storage PD Snapshot in Mumbai", "OnDemand", "snapshot", STANDARD),
        ("Storage PD Snapshot in US", "OnDemand", "snapshot", STANDARD),
        ("External IP Charge on a Spot Preemptible VM", "OnDemand", "external-ip:spot", STANDARD),
        ("External IP Charge on a Spot Preemptible VM", "Preemptible", "external-ip:spot", STANDARD),
    ],
)
def test_real_wordings_are_understood(description: str, usage: str, resource: str, model: ProvisioningModel) -> None:
    """Google's words say which resource a SKU prices, for on-demand or for Spot VMs."""
    assert subject(description, usage) == (resource, model)


@pytest.mark.parametrize(
    ("description", "usage"),
    [
        ("Commitment v1: Nvidia Tesla T4 GPU running in Americas for 1 Year", "Commit1Yr"),
        ("Commitment v1: A2 Cpu in Americas for 3 Year", "OnDemand"),
        ("A2 Instance Core running in Americas", "Commit1Yr"),
        ("DWS Defined Duration A2 Core running in Americas", "Commit1Yr"),
        ("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", "Preemptible"),
        ("A3 Instance Core running in Americas in Calendar Mode", "OnDemand"),
        ("Reserved Nvidia Tesla A100 80GB GPU in Virginia", "OnDemand"),
        ("Sole Tenancy Instance Ram running in Virginia", "OnDemand"),
        ("Sole Tenancy Premium for N1 Predefined Instance Core running in Virginia", "OnDemand"),
        ("Memory Optimized Upgrade Premium for Memory-optimized Instance Core running in Americas", "OnDemand"),
        ("Regional Balanced PD Capacity", "OnDemand"),
        ("Storage PD Snapshot Archive in South Carolina", "OnDemand"),
        ("Storage Machine Image in US", "OnDemand"),
        ("Nvidia Tesla T4 Virtual Workstation GPU running in Americas", "OnDemand"),
        ("Licensing Fee for Windows Server 2022 (CPU cost)", "OnDemand"),
        ("VM state: preserved local SSD in Bangkok", "OnDemand"),
        ("External IP Charge on a Google Cloud VPN Tunnel", "OnDemand"),
        ("A2 Instance Core running in Americas", "Preemptible"),
    ],
)
def test_look_alikes_are_passed_over(description: str, usage: str) -> None:
    """Commitments, reservations, premiums, regional disks and the like never become the price of a VM's part."""
    assert subject(description, usage) is None


def test_one_sku_prices_every_region_that_it_covers() -> None:
    """Regions come from serviceRegions; dollars and nano-dollars add up; the time is aware."""
    seen = list(
        prices_of_sku(
            sku("Nvidia Tesla A100 GPU running in Americas", 933908000, units="2", regions=("us-east1", "us-west1"))
        )
    )
    assert seen == [
        Price(
            PriceKey("gpu:nvidia-tesla-a100", region, STANDARD),
            Unit.HOUR,
            2_933_908_000,
            datetime(2026, 2, 1, tzinfo=UTC),
            "catalog",
            "AAAA-BBBB-CCCC",
        )
        for region in ("us-east1", "us-west1")
    ]


def test_a_snapshot_in_several_regions_is_priced_by_its_continent() -> None:
    """`storageLocations` names it so. Several catalogues of 2026 have both SKUs, at prices of their own."""
    (price,) = prices_of_sku(sku("Storage PD Snapshot in US", unit="GiBy.mo", regions=("us-central1", "us-east1")))
    assert price.key == PriceKey("snapshot", "us", STANDARD)


def test_an_address_is_priced_everywhere_at_once_after_its_free_hours() -> None:
    """This was read from the catalogue on 4 September 2026: `global`, 0 to 720 hours free, then 0.005."""
    tiers = [
        {"startUsageAmount": start, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}
        for start, nanos in ((0, 0), (720, 5_000_000))
    ]
    (price,) = prices_of_sku(sku("External IP Charge on a Standard VM", regions=("global",), tiers=tiers))
    assert (price.key, price.rate_nanos) == (PriceKey("external-ip", "global", STANDARD), 5_000_000)


def test_the_price_is_the_first_paid_tier() -> None:
    """A free allowance before it and discounts for volume after it are not the price."""
    tiers = [
        {"startUsageAmount": start, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}
        for start, nanos in ((0, 0), (30, 40_000_000), (1000, 20_000_000))
    ]
    (price,) = prices_of_sku(sku("Storage PD Capacity", unit="GiBy.mo", tiers=tiers))
    assert (price.rate_nanos, price.unit) == (40_000_000, Unit.GIB_MONTH)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "sku",
        {},
        {"description": "A2 Instance Core running in Iowa"},
        sku("A2 Instance Core running in Iowa", unit="count"),
        sku("A2 Instance Core running in Iowa", since="yesterday"),
        sku("A2 Instance Core running in Iowa", since="2026-02-01T00:00:00"),
        {**sku("A2 Instance Core running in Iowa"), "pricingInfo": []},
        {**sku("A2 Instance Core running in Iowa"), "skuId": None},
        sku("A2 Instance Core running in Iowa", units="-5"),
        sku("A2 Instance Core running in Iowa", -5),
        sku("A2 Instance Core running in Iowa", units="1" + "0" * 30),
        sku("A2 Instance Core running in Iowa", since="0001-01-01T00:00:00Z"),
    ],
)
def test_one_odd_sku_does_not_cost_the_others(odd: object) -> None:
    """A SKU that cannot be read is passed over; the rest of the page counts."""
    with served(pages([odd, sku("Nvidia L4 GPU running in Iowa")])) as (url, _):
        assert [price.key.resource for price in CatalogPrices(url).fetch()] == ["gpu:nvidia-l4"]


def test_all_pages_are_read_and_a_key_gets_one_price() -> None:
    """The newer of two SKUs for one key is believed, and of equally new ones the more expensive."""
    first = [sku("Nvidia L4 GPU running in Iowa", 7, since="2026-01-01T00:00:00Z"), sku("Storage PD Capacity", 4)]
    second = [sku("Nvidia L4 GPU running in Americas", 5), sku("Nvidia L4 GPU running in Iowa", 6)]
    with served(pages(first, second)) as (url, requests):
        rates = {price.key.resource: price.rate_nanos for price in CatalogPrices(url).fetch()}
    assert rates == {"gpu:nvidia-l4": 6, "disk:pd-standard": 4}
    assert [ask["path"] for ask in requests] == ["/v1/services/6F81-5844-456A/skus"] * 2
    assert {ask["currencyCode"] for ask in requests} == {"USD"}


def test_an_api_key_travels_in_a_header() -> None:
    """A key in the address would end up in logs."""
    with served(pages([sku("Nvidia L4 GPU running in Iowa")])) as (url, requests):
        CatalogPrices(url, api_key="secret").fetch()
    assert requests[0]["key"] == "secret"
    assert "secret" not in str([value for name, value in requests[0].items() if name != "key"])


@pytest.mark.parametrize(
    ("words", "usage", "resource"),
    [
        # Words and ids of SKUs as public programs print them; T4 costs 0.22 for a year and 0.16 for three, of 0.35.
        ("Commitment v1: A2 Cpu in APAC for 1 Year", "Commit1Yr", "commitment-1y:a2:core"),
        ("Commitment v1: N2 Ram in Americas for 3 Year", "Commit3Yr", "commitment-3y:n2:ram"),
        ("Commitment v1: C2D AMD Cpu in EMEA for 1 Year", "Commit1Yr", "commitment-1y:c2d:core"),
        ("Commitment v1: Cpu in Americas for 1 Year", "Commit1Yr", "commitment-1y:n1:core"),
        (
            "Commitment v1: Nvidia Tesla T4 GPU running in Americas for 3 Years",
            "Commit3Yr",
            "commitment-3y:gpu:nvidia-tesla-t4",
        ),
        (
            "Commitment v1: Nvidia H100 80GB GPU running in Americas for 1 Year",
            "Commit1Yr",
            "commitment-1y:gpu:nvidia-h100-80gb",
        ),
        ("Commitment v1: Nvidia L4 GPU in Frankfurt for 1 Year", "Commit1Yr", "commitment-1y:gpu:nvidia-l4"),
        ("Commitment v1: TpuV6e running in Columbus for 1 Year", "Commit1Yr", "commitment-1y:gpu:v6e:whole"),
        ("Commitment v1: A2 Cpu in APAC for 1 Year", "OnDemand", None),  # words and type contradict each other
        ("Commitment v1: A2 Cpu in APAC for 3 Years", "Commit1Yr", None),
        ("Commitment v1: Memory-optimized Cpu in Americas for 1 Year", "Commit1Yr", None),
        ("Commitment - dollar based v1: GCE for 1 year", "Commit1Yr", None),
    ],
)
def test_a_commitments_price_is_one_of_its_own(words: str, usage: str, resource: str | None) -> None:
    """It never prices use, whose words are not its own."""
    assert subject(words, usage) is None
    prices = list(prices_of_sku(sku(words, 220_000_000, usage=usage)))
    assert [price.key for price in prices] == ([PriceKey(resource, "us-central1", STANDARD)] if resource else [])
    assert [judge(price, None, None, NOW) for price in prices if not resource or ":ram" not in resource] in ([], [None])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: (403, orjson.dumps({"error": {"message": "API has not been used"}})), "API has not been used"),
        (lambda _: (500, b"<html>oops</html>"), "500"),
        (lambda _: (200, b"garbage"), "not JSON"),
        (lambda _: (200, b"[]"), "not a page"),
        (lambda _: (200, b"{}"), "holds no price"),
        (lambda _: (200, orjson.dumps({"nextPageToken": "again"})), "does not go on"),
    ],
)
def test_a_catalogue_that_cannot_be_read_says_so(answer: Answer, said: str) -> None:
    """The error names the address, Google's reason and what to do."""
    with served(answer) as (url, _), pytest.raises(PriceSourceError, match=said) as raised:
        CatalogPrices(url).fetch()
    assert url in str(raised.value)
    assert raised.value.what_next


def test_a_catalogue_that_refuses_says_what_mends_it() -> None:
    """The command is for the API and the project that Google names."""
    words = "Cloud Billing API has not been used in project 7 before or it is disabled."
    answer = (403, orjson.dumps({"error": {"code": 403, "message": words}}))
    with served(lambda _: answer) as (url, _), pytest.raises(PriceSourceError) as raised:
        CatalogPrices(url).fetch()
    assert "gcloud services enable cloudbilling.googleapis.com --project=" in raised.value.what_next


def test_a_catalogue_that_does_not_answer_says_so() -> None:
    """A refused connection is a PriceSourceError like any other."""
    with served(pages([])) as (url, _):
        pass
    with pytest.raises(PriceSourceError, match="could not be read"):
        CatalogPrices(url).fetch()


def test_the_whole_catalogue_of_the_simulated_cloud_is_understood() -> None:
    """Every price that the simulated cloud sells is found, at its rate, and nothing else, over several pages."""
    price_list = PriceList()

    def answer(wanted: dict[str, str]) -> tuple[int, bytes]:
        return 200, orjson.dumps(skus_page(price_list, NOW, 400, wanted.get("pageToken")))

    with served(answer) as (url, requests):
        rates = {price.key: price.rate_nanos for price in CatalogPrices(url).fetch() if ESTIMATED not in price.source}
    sold = {
        guards_key(resource, region, spot): price_list.rate(resource, region, spot, NOW)[0]
        for resource, region, spot in price_list.sold()
    }
    promised = {key: rate for key, rate in rates.items() if without_commitment(key.resource)[1]}
    assert {key: rate for key, rate in rates.items() if key not in promised} == sold
    of_use = {key: replace(key, resource=without_commitment(key.resource)[0]) for key in promised}
    discounted = {key: rate for key, rate in promised.items() if of_use[key] in sold}
    assert len(discounted) > 100
    assert all(rate < sold[of_use[key]] for key, rate in discounted.items())
    assert len(requests) > 1
