"""The page of a job's profile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from tests.pages import job_story
from tests.pages.html import Page, tidy

from costguard.db.transaction import Database

PROFILE = "/jobs/j7k2m9q4/profile"


@pytest.fixture
def client(sqlite_database: Database, client_with: Callable[..., TestClient]) -> TestClient:
    """Reads here are the API's, too, and tested on both kinds of databases there."""
    job_story.tell(sqlite_database)
    return client_with()


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def _text(client: TestClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return tidy(Page(answer.text).text)


def test_cure_comes_first_and_each_box_says_its_share_and_change(client: TestClient) -> None:
    """The advice stands above the drawing that shows why."""
    text = _text(client, PROFILE)

    assert text.index("A data frame is indexed by rows in Rows.__getitem__") < text.index("Hottest functions")
    assert "train_step (train.py:22): 34.0% of the time, 60 points less than in the earlier job" in text
    assert "-60 train_step" in text
    assert "Compared with gan" in text


def test_colours_say_the_change_in_words_too(client: TestClient) -> None:
    """The colours are those of own and foreign code without a comparison."""
    html = client.get(PROFILE).text

    assert 'class="more-3"' in html
    assert 'class="less-3"' in html
    alone = client.get(f"{PROFILE}?compare=none").text
    assert "more-" not in alone
    assert 'class="own"' in alone
    assert "points" not in tidy(Page(alone).text)


def test_no_style_and_no_script_is_in_the_drawing(client: TestClient) -> None:
    """The page's Content-Security-Policy allows neither."""
    html = client.get(PROFILE).text
    drawing = html[html.index('<svg class="flame"') : html.index("</svg>", html.index('<svg class="flame"'))]

    assert "style=" not in drawing
    assert "<script" not in drawing
    assert "onclick" not in drawing


def test_a_part_is_enlarged_with_its_group_and_comparison_kept(client: TestClient) -> None:
    """A box's link leads to its part, below its path."""
    whole = f"{PROFILE}?group=workers&compare=none"
    boxes = _boxes(client, whole)
    (address,) = (one for one, label in boxes.items() if "pandas/core/indexing.py" in label)

    text = _text(client, address)

    assert "compare=none" in address
    assert "Loader workers below _LocationIndexer.__getitem__" in text
    assert "All / _worker_loop / _MapDatasetFetcher.fetch / Rows.__getitem__ / _LocationIndexer.__getitem__" in text


def test_job_without_a_profile_says_why(client: TestClient) -> None:
    """The page of the job does not lead there."""
    assert "profiles are not allowed" in _text(client, "/jobs/b3waits7/profile")
    assert "/jobs/b3waits7/profile" not in Page(client.get("/jobs/b3waits7").text).addresses
    assert PROFILE in Page(client.get("/jobs/j7k2m9q4").text).addresses


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 404), ("compare=nothere", 404), ("compare=b3waits7", 422), ("at=nothing", 200), ("group=threads", 200)],
)
def test_wrong_addresses_are_answered(client: TestClient, query: str, status: int) -> None:
    """A job that is unknown is an error; an old link to a box shows the whole."""
    path = "/jobs/nothere/profile" if not query else f"{PROFILE}?{query}"

    assert client.get(path).status_code == status


def test_names_of_functions_are_text(client: TestClient) -> None:
    """A module's name is `<module>`: it must not become an element."""
    assert "<module>" not in client.get(PROFILE).text
    assert "&lt;module&gt;" in client.get(PROFILE).text


def _boxes(client: TestClient, address: str) -> dict[str, str]:
    """Returns the label of each box by its address."""
    html = client.get(address).text
    parts = [part for part in html.split("<a href=") if "<title>" in part and "% of the time" in part]
    return {part.split('"')[1].replace("&amp;", "&"): part.split("<title>")[1].split("</title>")[0] for part in parts}
