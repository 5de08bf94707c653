"""The page Limits shows each limit with its queue."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient
from tests.jobs.queued import RULES, queue
from tests.pages.html import page_of, tidy

from costguard.access.rules import Rules
from costguard.db.transaction import Database


def test_each_limit_shows_its_use_and_its_queue(database: Database, client_with: Callable[..., TestClient]) -> None:
    """The jobs that wait stand in their order, each with its sentence and a link."""
    queue(database)
    page = page_of(client_with(rules=RULES), "/limits")
    text = tidy(page.text)
    assert "1 of 1 GPU in use" in text
    assert "$0.250 of $5.00 an hour in use" in text
    assert "each-owner of ada@lab.example" in text
    assert text.index("third bob@lab.example, priority 7") < text.index("second ada@lab.example")
    assert "second in line, behind job third; expected to start around 15:00 UTC" in text


def test_without_limits_it_says_how_to_set_one(client_with: Callable[..., TestClient]) -> None:
    """The sample is what the settings file takes."""
    page = page_of(client_with(rules=Rules({})), "/limits")
    assert "[limits.gpus]" in page.text
