"""Projects are found by Asset Inventory: recorded answers, the discovery document, pages, refusals and torn answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.gce.conftest import Connect
from tests.gce.server import Answer, Asked, json_answer

from costguard.gce.assets import BILLED, PROJECT
from costguard.model.observation import FoundProject, PlaceSearch

ORG = "organizations/123"
INSTANCE = "compute.googleapis.com/Instance"
RECORDED = Path(__file__).parents[3] / "shared" / "outside" / "pubsub-and-assets"


def _vm(number: int, named: str = "", kind: str = INSTANCE) -> dict[str, Any]:
    name = f"//compute.googleapis.com/projects/{named or number}/zones/us-central1-a/instances/vm"
    return {"name": name, "assetType": kind, "project": f"projects/{number}"}


def _project(number: int, project: str) -> dict[str, Any]:
    name = f"//cloudresourcemanager.googleapis.com/projects/{project or number}"
    return {"name": name, "assetType": PROJECT, "project": f"projects/{number}"}


def _search(connect: Connect, *pages: Answer) -> tuple[PlaceSearch, list[Asked]]:
    answers: Iterator[Answer] = iter(pages)
    setup = connect(lambda _asked: next(answers))
    return setup.cloud.search(ORG), setup.server.requests


def _page(*results: dict[str, Any], after: str = "") -> Answer:
    return json_answer({"results": list(results)} | ({"nextPageToken": after} if after else {}))


@pytest.mark.parametrize(
    ("file", "number", "project"),
    [("resources-searchAll_1.json", "1098479648729", "cloud-custodian")],
)
def test_a_recorded_answer_names_the_project_by_id_and_number(
    connect: Connect, file: str, number: str, project: str
) -> None:
    """The name of the VM has the id, and `project` the number."""
    if not RECORDED.is_dir():
        pytest.skip(f"the recorded answers are not here ({RECORDED})")
    answer = json.loads((RECORDED / file).read_text("utf-8"))
    result, _ = _search(connect, json_answer(answer))
    assert result == PlaceSearch(ORG, (FoundProject(number, project),))


def test_a_recorded_answer_without_vms_finds_no_project(connect: Connect) -> None:
    """A subnet, an address, an autoscaler and a disk bill nothing that the ledger holds."""
    if not RECORDED.is_dir():
        pytest.skip(f"the recorded answers are not here ({RECORDED})")
    answer = json.loads((RECORDED / "searchAllResources_us-central1.json").read_text("utf-8"))
    result, _ = _search(connect, json_answer(answer))
    assert result == PlaceSearch(ORG)


def test_the_request_is_one_that_the_discovery_document_has(connect: Connect) -> None:
    """Path, parameters, the most of a page and the fields of a result are Google's."""
    document = json.loads(
        files("googleapiclient").joinpath("discovery_cache/documents/cloudasset.v1.json").read_text("utf-8")
    )
    method = document["resources"]["v1"]["methods"]["searchAllResources"]
    _, (request,) = _search(connect, _page())
    assert (method["httpMethod"], method["path"]) == ("GET", "v1/{+scope}:searchAllResources")
    assert request.path == f"/v1/{ORG}:searchAllResources"
    assert set(request.query) <= {*method["parameters"], *document["parameters"]}
    assert "capped at 500" in method["parameters"]["pageSize"]["description"]
    assert request.query["pageSize"] == "500"
    assert method["parameters"]["assetTypes"]["repeated"]
    assert request.query["assetTypes"] == BILLED[-1]  # of a repeated parameter the test server keeps the last
    assert set(request.query["readMask"].split(",")) <= set(document["schemas"]["ResourceSearchResult"]["properties"])


def test_numbers_are_mapped_to_ids_over_all_pages(connect: Connect) -> None:
    """A number's id may come on a later page, from the project itself; only projects with VMs are result."""
    result, requests = _search(
        connect,
        _page(_vm(11), _vm(12, "by-name"), _vm(11), after="two"),
        _page(_project(11, "by-project"), _project(13, "empty"), _vm(14), _project(14, ""), after="three"),
        _page({**_vm(15), "parentFullResourceName": "//cloudresourcemanager.googleapis.com/projects/acme.com:old"}),
    )
    assert result.unread is None
    assert {one.number: one.project for one in result.projects} == {
        "11": "by-project",
        "12": "by-name",
        "14": "",
        "15": "acme.com:old",
    }
    assert [one.query.get("pageToken") for one in requests] == [None, "two", "three"]


def test_a_page_that_fails_finds_nothing(connect: Connect) -> None:
    """The pages before it are no whole answer."""
    pages = [_page(_vm(number, f"lab-{number}"), after=f"t{number}") for number in range(1, 7)]
    result, requests = _search(connect, *pages, *[json_answer({"error": {"code": 500, "message": "No."}}, 500)] * 4)
    assert result.projects == ()
    assert result.unread is not None
    assert result.unread.code == "unavailable"
    assert len(requests) == 10  # the seventh is tried four times


def test_a_refusal_names_the_place_the_role_and_who_to_grant_it_to(connect: Connect) -> None:
    """It is asked once, and says what mends it."""
    text = "Request denied by Cloud IAM. Permission 'cloudasset.assets.searchAllResources' denied on resource"
    result, requests = _search(connect, json_answer({"error": {"code": 403, "message": text}}, 403))
    assert result.unread is not None
    assert result.unread.code == "permission"
    assert "of organization 123" in result.unread.reason
    assert "Grant the role of deploy/iam-role-discovery.yaml, or roles/cloudasset.viewer" in result.unread.reason
    assert len(requests) == 1


def test_an_api_that_is_off_is_enabled_where_the_account_is(connect: Connect) -> None:
    """The answer names that project; the organisation has no APIs."""
    text = "Cloud Asset API has not been used in project 4711 before or it is disabled."
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}]
    error = {"code": 403, "message": text, "status": "PERMISSION_DENIED", "details": details}
    result, _ = _search(connect, json_answer({"error": error}, 403))
    assert result.unread is not None
    assert "gcloud services enable cloudasset.googleapis.com --project=4711" in result.unread.reason


@pytest.mark.parametrize(
    "torn",
    [
        {"results": "none"},
        {"results": ["x"]},
        {"results": [{"assetType": INSTANCE, "project": "lab"}]},
        {"results": [{"assetType": INSTANCE}]},
        {"results": [], "nextPageToken": 7},
    ],
)
def test_a_torn_answer_is_unread(connect: Connect, torn: dict[str, Any]) -> None:
    """It is never an organisation without projects."""
    result, _ = _search(connect, json_answer(torn))
    assert result.unread is not None
    assert (result.unread.code, result.projects) == ("bad_answer", ())
