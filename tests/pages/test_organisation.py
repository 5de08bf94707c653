"""Pages of an organisation of 500 projects: sums and searches where few projects have a line each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser import organisation
from tests.browser.organisation import LATE, PARTLY, PROJECTS, REFUSING, Organisation
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database

MOST_KB = 200


@pytest.fixture(scope="module")
def fleet(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Organisation]:
    path = tmp_path_factory.mktemp("organisation") / "costguard.db"
    shutil.copy(sqlite_template, path)
    with closing(Database.open(f"sqlite:///{path}")) as database:
        yield organisation.tell(database)


@pytest.fixture
def client(fleet: Organisation) -> TestClient:
    return TestClient(fleet.app)


def read(client: TestClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    assert len(answer.content) < MOST_KB * 1000
    page = Page(answer.text)
    assert page.mistakes == []
    return tidy(page.text)


def test_health_begins_with_sums_and_names_each_reason_once(client: TestClient) -> None:
    """Fifty projects that refuse are one line, as is a zone that eighty projects miss."""
    text = read(client, "/health")
    assert "3 things need attention" in text
    assert "365 of 500 The oldest complete read is 40 min old." in text
    assert len(re.findall("Required 'compute.instances.list' permission", text)) == 1
    assert "50 projects forbidden" in text
    assert "europe-west4-a of 80 projects unreachable" in text
    assert all(project in text for project in (*REFUSING, *LATE, *PARTLY))


def test_a_project_is_found_by_a_part_of_its_name(client: TestClient) -> None:
    """Each match has a line, and fifty do at most."""
    text = read(client, f"/health?project={PARTLY[0]}")
    assert f"{PARTLY[0]} partly read" in text
    assert "1 project has it in its name." in text
    assert "The first 50 of 500 that have it in their names." in read(client, "/health?project=acme")
    assert "No watched project has this in its name." in read(client, "/health?project=nowhere")


def test_readiness_counts_projects_and_warns_once_of_each_reason(client: TestClient) -> None:
    """A monitor gets three sentences, not 135."""
    answer = client.get("/readyz").json()
    assert answer["status"] == "degraded"
    counts = {"watched": 500, "completely_read": 365, "partly_read": 80, "late": 5, "not_read": 50}
    assert {name: answer["project_counts"][name] for name in counts} == counts
    assert answer["project_counts"]["oldest_age_seconds"] == 2400
    late, refused, away = sorted(answer["warnings"], key=lambda warning: ("europe" in warning, "forbidden" in warning))
    assert late.endswith("and 2 more were not read whole for too long.")
    assert "and 47 more are not read (forbidden): `costguard projects --refusing`" in refused
    assert away.startswith("europe-west4-a of acme-")
    assert away.endswith("and 77 more is not read (unreachable).")


def test_the_fleet_says_what_is_not_known_in_three_parts(client: TestClient) -> None:
    """Each names its projects, folded."""
    text = read(client, "/")
    assert "50 projects cannot be read" in text
    assert "80 parts of the fleet cannot be read" in text
    assert "5 projects have not been read completely for too long" in text
    assert "3,600 of 3,600 VMs" in text


@pytest.mark.parametrize("address", ["/", "/launch?preset=t4", "/events", "/spend?group_by=project", "/loose"])
def test_a_project_is_chosen_by_typing_its_name(client: TestClient, address: str) -> None:
    """The browser offers those that match what is typed; nobody scrolls through 500 lines."""
    text = client.get(address).text
    assert re.search(r'<input type="search" [^>]*name="project"[^>]* list="watched-projects"', text)
    names = text[text.index('<datalist id="watched-projects"') : text.index("</datalist>")]
    assert names.count("<option value=") >= 200
    assert '<select name="project"' not in text


def test_loose_things_of_projects_that_refuse_are_unknown_once(client: TestClient) -> None:
    """A hundred things are listed; a project that is chosen shows its own."""
    text = read(client, "/loose")
    assert "50 projects: unknown." in text
    assert "Projects unknown 50 of 500" in text
    assert "Things 1,350" in text
    assert "The first 100 are listed" in text
    one = read(client, f"/loose?project={PROJECTS[499]}")
    assert "Things 3" in one
    answer = client.get("/api/v1/loose").json()
    assert [row["project"] for row in answer["unknown"]] == REFUSING
    assert not answer["monthly"]["complete"]
    assert len(client.get("/api/v1/loose", params={"project": PROJECTS[0], "fresh": True}).json()["unknown"]) == 1
