"""The page of a job's whole output, from pieces that its agents stored."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.jobs.job_service import JobSetup
from tests.pages import job_story
from tests.pages.html import Page, tidy

from costguard.checkpoints.archives import StoredArchives
from costguard.checkpoints.buckets import StoreAccess
from costguard.db.transaction import Database

JOB = "/jobs/j7k2m9q4"


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """Makes a database. Reads here are the API's, too, and tested on both kinds there."""
    return sqlite_database


def stored(folder: Path) -> StoredArchives:
    """A thousand lines that one run printed."""
    piece = folder / "1" / f"{0:015d}.log.gz"
    piece.parent.mkdir(parents=True)
    piece.write_bytes(gzip.compress("".join(f"step {step} loss <1.{step:03d}>\n" for step in range(1000)).encode()))
    return StoredArchives(f"file://{folder}", StoreAccess())


def client_over(client_with: Callable[..., TestClient], database: Database, folder: Path) -> TestClient:
    """Makes a client with a thousand lines that attempt 3 printed."""
    job_story.tell(database)
    office, store = JobSetup(database), stored(folder)
    return client_with(rules=office.rules, jobs=office.it, output=lambda location: store)


def test_output_is_shown_part_by_part(
    client_with: Callable[..., TestClient], database: Database, tmp_path: Path
) -> None:
    """Five hundred lines a page, escaped, with the way to the next ones and to the whole text."""
    client = client_over(client_with, database, tmp_path)
    page = Page(client.get(f"{JOB}/output").text)
    assert page.mistakes == []
    assert "step 499 loss <1.499>" in page.text
    assert "step 500" not in page.text
    assert any(address.startswith(f"/api/v1{JOB}/output/text") for address in page.addresses)
    following = next(address for address in page.addresses if "begin=" in address)
    rest = Page(client.get(following).text)
    assert "step 999 loss" in rest.text
    assert not any("begin=" in address for address in rest.addresses)


def test_output_is_searched(client_with: Callable[..., TestClient], database: Database, tmp_path: Path) -> None:
    """The matching lines alone are shown; a wrong expression is an error in words, and the job's page leads here."""
    client = client_over(client_with, database, tmp_path)
    matching = tidy(Page(client.get(f"{JOB}/output?search=step 77[0-9]").text).text)
    assert matching.count("loss") == 10
    assert "No line matches." in tidy(Page(client.get(f"{JOB}/output?search=missing").text).text)
    refused = client.get(f"{JOB}/output?search=(")
    assert refused.status_code == 422
    assert "no regular expression" in refused.text
    assert f"{JOB}/output" in Page(client.get(JOB).text).addresses


def test_output_that_is_stored_nowhere_says_what_would_store_it(
    client_with: Callable[..., TestClient], database: Database, tmp_path: Path
) -> None:
    """A page with the reason, and 404 for a job or an attempt that is not there."""
    client = client_over(client_with, database, tmp_path)
    assert client.get("/jobs/none/output").status_code == 404
    assert client.get(f"{JOB}/output?attempt=9").status_code == 404
