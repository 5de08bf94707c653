"""The page of prices: Spot next to on-demand, what was refused and what stays, what has no price."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, RefusedPrice, Unit

HOUR = timedelta(hours=1)
KEY = PriceKey("gpu:nvidia-tesla-a100", "us-central1", ProvisioningModel.STANDARD)
A100 = Price(KEY, Unit.HOUR, 2_933_908_000, NOW - HOUR, "catalog")
SPOT = replace(A100, key=replace(A100.key, provisioning_model=ProvisioningModel.SPOT), rate_nanos=1_100_000_000)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Particulars of a database are tested with its own queries."""
    return sqlite_database


def read(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    page = Page(answer.text)
    assert page.mistakes == []
    return tidy(page.text)


def test_prices_stand_side_by_side_with_their_history(database: Database, client: TestClient) -> None:
    """The page shows the saving of Spot, earlier and later prices, the refused price and the one that stays."""
    assert "No prices are known" in read(client, "/prices")
    wild = replace(SPOT, rate_nanos=9_930_000_000)
    with database.write() as connection:
        prices.add(
            connection,
            [
                A100, SPOT, replace(SPOT, rate_nanos=900_000_000, in_force_from=NOW - 2 * HOUR),
                replace(SPOT, rate_nanos=1_000_000_000, in_force_from=NOW + HOUR),
                replace(A100, key=replace(A100.key, resource="n1:ram"), unit=Unit.GIB_HOUR, rate_nanos=4_237_000),
            ],
            NOW - HOUR,
        )  # fmt: skip
        prices.refuse(connection, [RefusedPrice(wild, "$9.93 is not below the on-demand price.")], NOW)
        vm = rows.instance(connection, "trainer")
        rows.lifetime(connection, vm, NOW - HOUR, unpriced="There is no price for gpu:nvidia-h200 in us-central1.")
    text = read(client, "/prices")
    assert "A100 GPU us-central1 hour $2.933908 $1.100000 was $0.900000 from 20 Nov, 13:00 $1.000000 62%" in text
    assert "N1 memory us-central1 GiB-hour $0.004237 no price –" in text
    assert "A100 GPU Spot us-central1, per hour $9.93 $1.1 $9.93 is not below the on-demand price." in text
    assert "1 resource has no complete price" in text
    assert "There is no price for gpu:nvidia-h200" in text
    assert text.index("A100 GPU us-central1") < text.index("N1 memory us-central1")


def test_flex_start_and_calendar_mode_have_columns_where_they_are_sold(database: Database, client: TestClient) -> None:
    """A fleet without such prices sees no empty columns; a refused price says how it is sold."""
    with database.write() as connection:
        prices.add(connection, [A100, SPOT], NOW - HOUR)
    assert "Flex-start" not in read(client, "/prices")
    flex, reserved = (
        replace(A100, key=replace(A100.key, provisioning_model=model), rate_nanos=nanos)
        for model, nanos in (
            (ProvisioningModel.FLEX_START, 1_613_650_000),
            (ProvisioningModel.RESERVATION_BOUND, 2_053_700_000),
        )
    )
    disk = replace(A100, key=replace(A100.key, resource="disk:pd-ssd"), unit=Unit.GIB_MONTH, rate_nanos=170_000_000)
    alone = replace(flex, key=replace(flex.key, region="europe-west4"))
    with database.write() as connection:
        prices.add(connection, [flex, reserved, alone, disk], NOW - HOUR)
        prices.refuse(connection, [RefusedPrice(replace(flex, rate_nanos=9), "$9 is wrong.")], NOW)
    text = read(client, "/prices")
    assert "On demand Spot Spot saves Flex-start Calendar mode Since" in text
    assert "A100 GPU us-central1 hour $2.933908 $1.100000 62% $1.613650 $2.053700" in text
    assert "A100 GPU europe-west4 hour no price no price – $1.613650 –" in text
    assert "pd-ssd disk us-central1 GiB-month $0.170000 no price – – –" in text
    assert "A100 GPU flex-start us-central1, per hour" in text


def test_prices_can_be_looked_for(database: Database, client: TestClient) -> None:
    """The search goes by words as people say them, by kind and region, a hundred a page; old prices are said to
    be old.
    """
    with database.write() as connection:
        made = [replace(A100, key=replace(A100.key, region=f"region{number:03}")) for number in range(130)]
        prices.add(
            connection, [*made, replace(A100, key=replace(A100.key, resource="disk:pd-ssd"))], NOW - timedelta(40)
        )
    for query, expected in (
        ("", "1 to 100 of 131"),
        ("page=2", "101 to 131 of 131"),
        ("words=a100+region012", "1 to 1 of 1"),
        ("kind=disk", "pd-ssd disk"),
        ("region=region005", "1 match"),
        ("words=tpu", "No price matches."),
        ("page=3", "The list has fewer pages."),
    ):
        text = read(client, f"/prices?{query}")
        assert expected in text, query
        assert "These prices may be old" in text
    for query in ("page=0", "page=x", "page=٣", "words=" + "x" * 501):
        assert "Start again from /prices." in read(client, f"/prices?{query}", 422)
