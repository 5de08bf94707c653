"""The page Spend shows what the API says."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.pages import job_story, story
from tests.pages.conftest import PRESETS
from tests.pages.html import Page, page_of, tidy
from tests.pages.test_budgets import a_month
from tests.reminders import reminder_rows
from tests.stages import staged
from tests.within import charge_due

from costguard.access.rules import JobRules, Rules, by_name
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.pages.charts import HEIGHT, climb
from costguard.spend.spend_story import month_of
from costguard.stages import stage_rows

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NANOS = 10**9
OWNERS = tuple(f"{name}@lab.example" for name in ("ana", "ben", "chi", "dora", "eva", "finn", "gus"))


def spent(database: Database) -> None:
    """Days of eight owners, two presets and projects, and both models; what runs now besides."""
    story.tell(database)
    with database.write() as connection:
        rows.project(connection, "other-lab")
        for number, owner in enumerate(OWNERS):
            rows.day(connection, date(2026, 11, 5 + number), owner=owner, gpu_nanos=(number + 1) * NANOS + 7)
            rows.day(connection, date(2026, 10, 9), owner=owner, project="other-lab", machine_nanos=3 * NANOS)
        rows.day(connection, date(2026, 11, 18), provisioning_model="spot", storage_nanos=123_456_789, seconds=5)


def cells(page: Page) -> list[Decimal]:
    """The dollars of the table by day, exactly, by rows."""
    return [
        Decimal(str(attrs["data-nanos"])).scaleb(-9)
        for tag, attrs in page.tags
        if tag == "td" and "data-nanos" in attrs
    ]


def dollars(text: str) -> str:
    return f"${Decimal(text).quantize(Decimal('0.01')):,}"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)  # spend itself is tested on both
def test_every_figure_is_what_the_api_says(database: Database, client: TestClient) -> None:
    """The total, each group's and each day's, what is unpriced, the forecast and the CSV, whatever is filtered by."""
    spent(database)
    for query in (
        "",
        "group_by=owner",
        "group_by=project&from=2026-10-01&to=2026-11-20",
        "group_by=provisioning_model&project=lab",
        "owner=ben@lab.example",
        "group_by=owner&preset=t4&owner=-",
        "from=2026-10-01&to=2026-10-31&group_by=owner",
        "from=2026-05-01&to=2026-11-20&group_by=owner",
        "from=2026-05-01&to=2026-11-20&group_by=project&owner=ben@lab.example",
    ):
        page = page_of(client, f"/spend?{query}")
        text = tidy(page.text)
        given: dict[str, Any] = dict(part.split("=") for part in query.split("&") if part)
        group_by = given.pop("group_by", "preset")
        days: dict[str, Any] = {name: given.pop(name) for name in ("from", "to") if name in given}
        filters: dict[str, Any] = {name: "" if value == "-" else value for name, value in given.items()}
        by_group = client.get("/api/v1/spend", params={**days, **filters, "group_by": group_by}).json()
        for row in (*by_group["rows"], {**by_group["total"], "unpriced": by_group["unpriced"]}):
            assert dollars(row["total"]) in text
        for row in by_group["rows"]:
            assert f"{row['unpriced']} unpriced" in text or not row["unpriced"]
        by_day = client.get("/api/v1/spend", params={**days, **filters, "group_by": f"day,{group_by}"}).json()
        assert sum(cells(page)) == Decimal(by_day["total"]["total"]) == Decimal(by_group["total"]["total"])
        link = next((address for address in page.addresses if "format=csv" in address), None)
        if link is not None:
            lines = list(csv.DictReader(io.StringIO(client.get(link).text)))
            wanted = [(*row["group"].values(), row["total"]) for row in by_day["rows"]]
            assert [(line["day"], line[group_by], line["total_usd"]) for line in lines] == wanted
        outlook = client.get("/api/v1/forecast", params=filters).json()
        assert f"{dollars(outlook['spent'])}" in text
        assert f"Forecast for November {dollars(outlook['forecast']['expected'])}" in text
        october = client.get("/api/v1/spend", params={**filters, "from": "2026-10-01", "to": "2026-10-31"}).json()
        assert f"All of October {dollars(october['total']['total'])}" in text


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_more_owners_than_colours_are_drawn_together(database: Database, client: TestClient) -> None:
    """Six have a colour; all have a row, from which they can be looked at alone."""
    spent(database)
    page = page_of(client, "/spend?group_by=owner&from=2026-11-01&to=2026-11-19")
    series = [attrs["data-series"] for tag, attrs in page.tags if tag == "th" and "data-series" in attrs]
    assert series == ["s0", "s1", "s2", "s3", "s4", "s5", "s6"]
    assert "2 others" in page.text
    alone = "/spend?from=2026-11-01&to=2026-11-19&group_by=preset&owner=gus%40lab.example"
    assert alone in page.addresses
    assert "November so far, owner gus@lab.example $7.00" in tidy(page_of(client, alone).text)


def test_the_month_stands_beside_the_last_one(database: Database, client: TestClient) -> None:
    """The page shows, for any days, to date, the forecast, the last month whole and to the same day, and a line of
    each.
    """
    a_month(database)
    for address in ("/spend", "/spend?from=2026-10-01&to=2026-10-31"):
        text = tidy(page_of(client, address).text)
        assert "November so far $60.18 An estimate: its prices came with Costguard" in text
        assert "Forecast for November $101.40" in text
        assert "All of October $27.00 1 – 20 October $0.00" in text
    with database.read() as connection:
        month = month_of(connection, accrual_at(connection, NOW), Scope())
    curve = climb(month, NOW)
    assert (month.before_total, month.before_to_day, month.change) == (Money.of(27), Money(), None)
    assert curve.line.startswith(f"0,{HEIGHT} 33,")
    assert curve.other.split()[22:24] == [f"733,{HEIGHT}", curve.other.split()[23]]
    assert [level.amount for level in curve.levels] == [Money.of(number) for number in (0, 50, 100)]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_month_that_is_too_young_to_forecast_has_no_line_ahead(database: Database, client: TestClient) -> None:
    """No dotted line, no range and no key of them: it is too early to say, in words and in the drawing."""
    with database.write() as connection:
        rows.prices(connection)
        rows.day(connection, (NOW - DAY).date(), gpu_nanos=30 * 10**9)
    page = page_of(client, "/spend")
    assert "Forecast for November too early to say All of October" in tidy(page.text)
    assert "forecast and its range" not in page.text
    assert not {"coming", "band"} & {attrs.get("class") for _, attrs in page.tags}
    assert "done" in {attrs.get("class") for _, attrs in page.tags}


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_what_was_saved_is_told_by_what_saved_it(database: Database, client: TestClient) -> None:
    """Spot against on-demand, stops, and what keeps cost, of the days and the scope that are asked for."""
    with database.write() as connection:
        rows.prices(connection)
        spot = rows.instance(connection, "spot", provisioning_model="spot")
        rows.lifetime(connection, spot, NOW - 2 * HOUR, provisioning_model="spot")
        idle = rows.instance(connection, "idle", preset="a100")
        reminder_rows.stop(
            connection, idle, rows.lifetime(connection, idle, NOW - 9 * HOUR, ended_at=NOW - 5 * HOUR), NOW - 5 * HOUR
        )
        kept = rows.instance(connection, "kept")
        run = rows.lifetime(connection, kept, NOW - 9 * HOUR)
        reminder_rows.keep(connection, kept, f"run:{kept}:{run}", NOW + HOUR, at=NOW - 4 * HOUR)
    page = page_of(client, "/savings")
    text = tidy(page.text)
    # Two hours at 0.53 on demand, and at 4 x 0.01 + 15 x 0.001 + 0.11 as Spot.
    assert "Spot instead of on-demand $0.73 saved, 68% On demand $1.06 As Spot $0.33" in text
    assert "Stops $2.65 saved by 1 stop" in text
    assert "Keeps $2.12 spent while kept, 1 keep" in text
    elsewhere = tidy(page_of(client, "/savings?preset=a100").text)
    assert "Nothing was billed as Spot on these days." in elsewhere
    assert "Stops $2.65 saved by 1 stop" in elsewhere
    assert "Nothing was kept past its limit" in elsewhere
    assert next(attrs for tag, attrs in page_of(client, "/spend").tags if attrs.get("id") == "saved")["hx-get"] == (
        "/savings?from=2026-11-01&to=2026-11-20"
    )
    assert "$0.73 saved, 68%" in tidy(page_of(client, "/savings?from=2026-01-01&to=2026-11-20").text)
    assert "Goodput 0 jobs No job ran on these days." in text


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_savings_say_what_jobs_time_went_into(database: Database, client: TestClient) -> None:
    """The bars are by preset and owner, and by month where the range has several; each says in words what it shows."""
    job_story.tell(database)
    page = page_of(client, "/savings?from=2026-10-01&to=2026-11-20")
    text = tidy(page.text)
    assert "Preset Time of its jobs Kept of paid time Cost A useful GPU-hour" in text
    assert "Owner Time of its jobs" in text
    assert "Month Time of its jobs" in text
    bars = [attrs for tag, attrs in page.tags if tag == "rect" and attrs.get("class") == "g-lost" and "x" in attrs]
    assert bars


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_wrong_address_of_spend_is_explained(client: TestClient) -> None:
    """The page says what can be asked."""
    for query in (
        "from=x",
        "to=1999-01-01",
        "from=2026-11-05&to=2026-11-04",
        "from=2020-01-01",
        "group_by=colour",
        f"owner={'x' * 501}",
    ):
        for page in ("/spend", "/savings"):
            assert "Back to Fleet" in page_of(client, f"{page}?{query}", 422).text


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_last_week_and_its_vms_are_a_link_away(database: Database, client: TestClient) -> None:
    """The week is from Monday to Sunday, whatever day it is; the CSV by VM is of the days, groups and filters that are
    shown.
    """
    spent(database)
    page = page_of(client, "/spend?group_by=owner&preset=t4")
    assert "/spend?from=2026-11-09&to=2026-11-15&group_by=owner&preset=t4" in page.addresses
    week = page_of(client, "/spend?from=2026-11-09&to=2026-11-15&group_by=owner&preset=t4")
    assert "9 Nov 2026 – 15 Nov 2026" in tidy(week.text)
    today = page_of(client, "/spend?from=2026-11-20&to=2026-11-20&group_by=owner&preset=t4")
    (link,) = (address for address in today.addresses if "%2Cvm" in address or ",vm" in address)
    lines = list(csv.DictReader(io.StringIO(client.get(link).text)))
    assert {line["vm"] for line in lines} >= {"forgotten"}
    assert next(iter(lines[0])) == "owner"


@pytest.fixture
def labelled(database: Database, client_with: Callable[..., TestClient]) -> TestClient:
    """A VM that went from experiment a to b, one with an empty label and one without; `experiment` is named."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        moved = rows.instance(connection, "moved", labels={"experiment": "b"})
        rows.lifetime(connection, moved, NOW - 50 * HOUR)
        label_history.store(connection, [LabelChange(moved, "experiment", NOW - 30 * HOUR, "a")])
        rows.lifetime(connection, rows.instance(connection, "empty", labels={"experiment": ""}), NOW - 2 * HOUR)
        rows.lifetime(connection, rows.instance(connection, "plain"), NOW - HOUR)
        charge_due(connection, NOW)
    return client_with(rules=Rules(by_name(PRESETS), spend_labels=("experiment", "cost-center")))


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)  # spend itself is tested on both
def test_label_stacks_days_by_its_values(labelled: TestClient) -> None:
    """Each value's sum and the days' are those of the API; each value leads to the page with it alone."""
    page = page_of(labelled, "/spend?group_by=label:experiment")
    answer = labelled.get("/api/v1/spend/labels/experiment").json()
    text = tidy(page.text)
    for name, row in zip(("b", "a", "(empty)", "without experiment"), answer["rows"], strict=True):
        assert f"{name} " in text
        assert dollars(row["total"]) in text
    assert sum(cells(page)) == Decimal(answer["total"]["total"])
    link = next(address for address in page.addresses if "format=csv" in address and "labels" in address)
    assert labelled.get(link).text.startswith("label:experiment,")
    for value in ("experiment%3Da", "experiment%3D", "%21experiment"):
        assert any(f"label={value}&" in f"{address}&" for address in page.addresses)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_label_filter_holds_for_the_whole_page(labelled: TestClient) -> None:
    """Month, forecast, groups, days and both CSV files count what VMs cost while they had the value."""
    for label in ("experiment=a", "experiment=b", "experiment=", "!experiment"):
        page = page_of(labelled, f"/spend?label={quote(label)}&group_by=owner")
        spent = labelled.get("/api/v1/spend", params={"label": label, "group_by": "owner"}).json()
        outlook = labelled.get("/api/v1/forecast", params={"label": label}).json()
        text = tidy(page.text)
        assert (sum(cells(page)), f"label {label}" in text) == (Decimal(spent["total"]["total"]), True)
        assert dollars(outlook["spent"]) in text
        for address in page.addresses:
            if "format=csv" in address:
                lines = list(csv.DictReader(io.StringIO(labelled.get(address).text, newline="")))
                assert sum(Decimal(line["total_usd"]) for line in lines) == Decimal(spent["total"]["total"])


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_label_with_very_many_values_makes_no_long_page(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """An id that each run has for itself: the most expensive are listed, and the others are one row with their sum."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        vm = rows.instance(connection, "busy", labels={"run": "last"})
        rows.lifetime(connection, vm, NOW - 5 * HOUR)
        start = NOW - 4 * HOUR
        changes = [LabelChange(vm, "run", start + timedelta(seconds=n), f"run-{n}") for n in range(800)]
        label_history.store(connection, changes)
        charge_due(connection, NOW)
    client = client_with(rules=Rules(by_name(PRESETS), spend_labels=("run",)))
    page = page_of(client, "/spend?group_by=label:run")
    assert "701 others, each with less" in tidy(page.text)
    assert len(client.get("/spend?group_by=label:run").content) < 200_000
    assert sum(cells(page)) == Decimal(client.get("/api/v1/spend").json()["total"]["total"])


@pytest.mark.parametrize(
    "query", ["group_by=label:team", "label=team=a", "label=experiment", "group_by=label:", "label=%00"]
)
def test_only_labels_of_the_settings_are_on_the_page(labelled: TestClient, query: str) -> None:
    """A label that is not added up day by day would be slow: the page names the setting."""
    answer = labelled.get(f"/spend?{query}", headers={"Accept": "text/html"})
    assert answer.status_code == 422
    assert "[spend] labels" in answer.text or "such as experiment=a" in answer.text


def test_page_without_named_labels_has_no_filter_by_them(client: TestClient) -> None:
    """Nothing is offered that the settings do not name."""
    assert 'name="label"' not in client.get("/spend").text


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_staged_data_has_a_line_with_its_storage_and_owner(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """A filter by an owner or project leaves what that one's jobs used; without stages there is no section."""
    rules = Rules(by_name(PRESETS), jobs=JobRules(stage=staged.RULES))
    client = client_with(rules=rules)
    assert "Staged data" not in client.get("/spend").text
    with database.write() as connection:
        names = staged.job(connection, vms=1)
        whole = replace(staged.STAGE, staged=staged.SIZE, made_at=NOW - 10 * DAY)
        stage_rows.save(connection, whole, is_new=True)
        stage_rows.use(connection, replace(staged.REPORT, from_source=staged.SIZE), names[0], "j1", NOW)
    for query, is_there in (("", True), ("owner=ada@lab.example", True), ("owner=ben@lab.example", False)):
        text = tidy(client.get(f"/spend?{query}").text)
        assert (staged.SOURCE in text) is is_there
    row = tidy(client.get("/spend").text).partition(staged.SOURCE)[2].partition("</tr>")[0]
    assert [word in row for word in ("ada@lab.example $0.66", "100.0 GiB", "$2.00")] == [True] * 3
