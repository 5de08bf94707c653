"""The reader of an export's table over HTTP, against the simulated BigQuery; and that against Google's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from tests.bill.exports import row
from tests.sandbox.gce.test_billing_export import export_of, world_of
from tests.sandbox.vms import new_world

from costguard.bigquery.client import ExportTable, from_answer
from costguard.bill.export_row import read_row
from costguard.errors import BadAnswer, CloudUnavailable, NotFound, PermissionDenied, RequestRefused
from costguard_sandbox.bigquery import DETAILED_SCHEMA, FOCUS_SCHEMA, Table
from costguard_sandbox.gce.billing.focus import focus_row
from costguard_sandbox.server import running
from costguard_sandbox.world import World

NAME = "acme-billing.billing.gcp_billing_export_resource_v1_0189FA_E139FD_136A58"
FOCUS = "acme-billing.focus.gcp_billing_export_focus_0189FA_E139FD_136A58"
EXPORT = export_of(world_of())
LOADED = tuple(zip(EXPORT.export_times, EXPORT.rows, strict=True))
FIRST, AFTER = date(2026, 3, 9), date(2026, 3, 10)
OF_THE_DAY = [one for at, one in LOADED if at.date() == FIRST]
GIB = 2**30


@pytest.fixture
def world() -> World:
    world = new_world()
    world.bigquery.tables[NAME] = Table(DETAILED_SCHEMA, lambda: LOADED)
    world.bigquery.tables[FOCUS] = Table(FOCUS_SCHEMA, lambda: [(at, focus_row(one)) for at, one in LOADED])
    return world


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running(world) as address:
        yield address


def table_at(url: str, table: str = NAME, most_bytes: int = GIB, tries: list[float] | None = None) -> ExportTable:
    def wait(seconds: float) -> bool:
        if tries is not None:
            tries.append(seconds)
        return False

    return ExportTable(
        table, billed_project="", location=None, most_bytes=most_bytes, endpoint=url, wait=wait, jitter=lambda: 1.0
    )


def read(url: str, table: str = NAME, **more: Any) -> list[Any]:
    with closing(table_at(url, table, **more)) as opened:
        return [read_row(one) for one in opened.rows(FIRST, AFTER)]


def test_rows_of_an_export_day_are_read_exactly(url: str) -> None:
    """The rows equal those of a file, over pages and E notation, and no other comes."""
    assert len(OF_THE_DAY) > 2
    expected = [read_row(one) for one in OF_THE_DAY]
    assert sorted(read(url)) == sorted(expected)


def test_pages_and_a_query_that_has_not_ended_are_waited_for(url: str, world: World) -> None:
    """jobComplete false: the result is asked for again; each page by the token of the one before."""
    world.bigquery.pending, world.bigquery.page_rows = 2, 7
    waits: list[float] = []
    assert len(read(url, tries=waits)) == len(OF_THE_DAY)
    assert len(waits) == 2


def test_the_focus_table_says_the_same(url: str) -> None:
    """Google's own FOCUS table as the source: the same resources, days, amounts, costs and credits."""
    same = [one._replace(source="") for one in read(url, FOCUS)]
    assert sorted(same) == sorted(read_row(one)._replace(source="") for one in OF_THE_DAY)


def test_a_query_is_bounded_in_columns_days_and_bytes(url: str, world: World) -> None:
    """It names the columns it reads, the partitions around its days, and the most that it may cost."""
    with closing(table_at(url)) as table:
        list(table.rows(FIRST, AFTER))
        assert table.bytes_billed == 10 * 2**20  # the least that BigQuery bills
    (query,) = world.bigquery.queries
    assert "SELECT *" not in query["query"]
    assert "`labels`" not in query["query"]
    assert "_PARTITIONTIME >= @from_day" in query["query"]
    assert "_PARTITIONTIME < @to_day" in query["query"]
    assert (query["maximumBytesBilled"], query["useLegacySql"]) == (str(GIB), False)


def test_beyond_the_most_bytes_nothing_is_read_and_it_says_what_to_raise(url: str) -> None:
    """bytesBilledLimitExceeded is BigQuery's refusal before anything is billed."""
    with pytest.raises(RequestRefused, match="limit for bytes billed") as refused:
        read(url, most_bytes=1_000_000)
    assert "bill.most_bytes" in refused.value.what_next


def test_a_table_that_is_cut_by_a_column_is_read_by_it(url: str, world: World) -> None:
    """tables.get says by what a table is cut; a table without partitions has no _PARTITIONTIME."""
    for cut_by, is_cut, condition in (
        ("export_time", True, "export_time"),
        ("usage_start_time", True, "`usage_start_time` >= @from_usage"),
        ("", False, "export_time"),
    ):
        world.bigquery.tables[NAME] = Table(DETAILED_SCHEMA, lambda: LOADED, cut_by, is_cut)
        assert len(read(url)) == len(OF_THE_DAY)
        assert condition in world.bigquery.queries[-1]["query"]
        assert "_PARTITIONTIME" not in world.bigquery.queries[-1]["query"]


def test_a_column_that_the_table_lacks_is_left_out(url: str, world: World) -> None:
    """The schema grows: an export of before July 2025 has no consumption model and no list cost."""
    older = tuple(one for one in DETAILED_SCHEMA if one["name"] not in ("consumption_model", "cost_at_list"))
    world.bigquery.tables[NAME] = Table(older, lambda: LOADED)
    rows = read(url)
    assert len(rows) == len(OF_THE_DAY)
    assert {(one.terms.consumption_model, one.list_nanos) for one in rows} == {("", None)}


def test_another_table_is_refused(url: str, world: World) -> None:
    """A table that is no export, and one that is not there, each say what to check."""
    schema = tuple(one for one in DETAILED_SCHEMA if one["name"] == "cost")
    world.bigquery.tables["acme-billing.billing.other"] = Table(schema, list)
    with pytest.raises(BadAnswer, match="no detailed billing export"):
        read(url, "acme-billing.billing.other")
    with pytest.raises(NotFound, match="Not found: Table"):
        read(url, "acme-billing.billing.none")
    with pytest.raises(BadAnswer, match="no name of a table"):
        read(url, "billing; DROP TABLE x")


def test_no_answer_is_tried_a_few_times() -> None:
    """A server that is not there: four tries with growing waits, then an error that says so."""
    waits: list[float] = []
    with pytest.raises(CloudUnavailable, match="no answer"):
        read("http://127.0.0.1:9", tries=waits)
    assert waits == [0.5, 2.0, 8.0]


def test_googles_own_client_understands_the_simulated_bigquery(url: str, world: World) -> None:
    """google-api-python-client, made from Google's discovery document, reads the table and pages through a query."""
    world.bigquery.page_rows = 10
    names = dict(zip(("projectId", "datasetId", "tableId"), NAME.split("."), strict=True))
    options = {"api_endpoint": f"{url}/bigquery/v2/"}
    service = build("bigquery", "v2", credentials=AnonymousCredentials(), client_options=options, static_discovery=True)  # type: ignore[no-untyped-call]
    with closing(service):
        table = service.tables().get(**names).execute()
        assert table["timePartitioning"] == {"type": "DAY"}
        moment = datetime(2026, 3, 9, tzinfo=UTC)
        body = {
            "query": f"SELECT `cost` FROM `{NAME}` WHERE `export_time` >= @first AND `export_time` < @after",
            "useLegacySql": False,
            "queryParameters": [
                {
                    "name": name,
                    "parameterType": {"type": "TIMESTAMP"},
                    "parameterValue": {"value": (moment + shift).isoformat(" ")},
                }
                for name, shift in (("first", timedelta()), ("after", timedelta(days=1)))
            ],
        }
        answer = service.jobs().query(projectId="acme-billing", body=body).execute()
        rows = list(answer["rows"])
        while token := answer.get("pageToken"):
            job = answer["jobReference"]["jobId"]
            answer = service.jobs().getQueryResults(projectId="acme-billing", jobId=job, pageToken=token).execute()
            rows += answer["rows"]
    assert len(rows) == int(answer["totalRows"]) == len(OF_THE_DAY)


def test_small_costs_come_in_e_notation_and_stay_exact(url: str, world: World) -> None:
    """K-kms: 5.28E-4 is how the REST API prints a small FLOAT64."""
    at = datetime(2026, 3, 9, 8, tzinfo=UTC)
    world.bigquery.tables[NAME] = Table(DETAILED_SCHEMA, lambda: [(at, row(exported=at, cost="0.000528"))])
    (one,) = read(url)
    assert one.cost_nanos == 528_000
    assert "5.28E-4" in str(world.bigquery.results["job_0"].rows)


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("Access Denied: User does not have bigquery.jobs.create permission in project p.", "roles/bigquery.jobUser"),
        ("VPC Service Controls: Request is prohibited by organization's policy.", "ingress or egress rule"),
        ("BigQuery API has not been used in project 7 before or it is disabled.", "gcloud services enable bigquery"),
    ],
)
def test_a_denial_says_what_mends_it(words: str, step: str) -> None:
    """Roles are named where they are what lacks."""
    body = json.dumps({"error": {"code": 403, "message": words, "errors": [{"reason": "accessDenied"}]}})
    error = from_answer(403, body.encode(), "p.d.t")
    assert isinstance(error, PermissionDenied)
    assert step in error.what_next
    assert ("roles/" in error.what_next) is (step == "roles/bigquery.jobUser")
