"""GET /api/v1/jobs/{job_id}/profile."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from tests.pages import job_story

from costguard.db.transaction import Database

PROFILE = "/api/v1/jobs/j7k2m9q4/profile"


def test_profile_has_functions_cures_and_the_job_compared_with(database: Database, client: TestClient) -> None:
    """Shares are of all looks at a group."""
    job_story.tell(database)

    answer = client.get(PROFILE).json()

    assert (answer["windows"], answer["seconds"], answer["compared_with"]) == (3, 30.0, "g5failed")
    assert answer["data_share"] == pytest.approx(0.66)
    (cure,) = answer["cures"]
    assert (cure["pattern"], cure["function"], cure["file"], cure["line"]) == (
        "rows",
        "Rows.__getitem__",
        "data.py",
        14,
    )
    main, workers = answer["groups"]
    assert (main["name"], main["looks"], workers["name"]) == ("main", 600, "workers")
    hottest = main["functions"][0]
    assert (hottest["function"], hottest["own"]) == ("_MultiProcessingDataLoaderIter._next_data", pytest.approx(0.66))
    assert hottest["own_before"] == pytest.approx(0.06)
    assert hottest["is_own"] is False


def test_nothing_is_compared_on_request(database: Database, client: TestClient) -> None:
    """There are no shares of before then."""
    job_story.tell(database)

    answer = client.get(PROFILE, params={"compare": "none"}).json()

    assert answer["compared_with"] is None
    assert answer["groups"][0]["functions"][0]["own_before"] is None


def test_job_without_a_profile_says_why(database: Database, client: TestClient) -> None:
    """It is unknown, and not empty without a word."""
    job_story.tell(database)

    answer = client.get("/api/v1/jobs/b3waits7/profile").json()

    assert (answer["windows"], answer["groups"], answer["since"]) == (0, [], None)
    assert "profiles are not allowed" in answer["why_none"]


def test_unknown_jobs_and_formats_are_refused(database: Database, client: TestClient) -> None:
    """A job without a profile cannot be compared with."""
    job_story.tell(database)

    assert client.get("/api/v1/jobs/nothere/profile").status_code == 404
    assert client.get(PROFILE, params={"compare": "nothere"}).status_code == 404
    assert client.get(PROFILE, params={"compare": "b3waits7"}).status_code == 422
    assert client.get(PROFILE, params={"format": "pprof"}).status_code == 422


def test_file_for_speedscope_is_downloaded(database: Database, client: TestClient) -> None:
    """It is named after the job."""
    job_story.tell(database)

    answer = client.get(PROFILE, params={"format": "speedscope"})

    assert answer.headers["Content-Disposition"] == 'attachment; filename="j7k2m9q4.speedscope.json"'
    assert [profile["name"] for profile in answer.json()["profiles"]] == ["main thread", "loader workers"]
