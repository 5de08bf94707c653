"""The pages of the API's documentation."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient
from tests.browser import site

from costguard.api.document import operations
from costguard.db.transaction import Database


def test_every_operation_and_schema_of_the_document_is_on_the_page_of_its_group(sqlite_database: Database) -> None:
    """The page has its method, its path, what is required, and links that lead somewhere on the page; the first lists
    all.
    """
    app = site.tell(sqlite_database).app
    client = TestClient(app)
    index = client.get("/api/docs").text
    document = app.openapi()
    groups = {operation["tags"][0] for _, _, operation in operations(document)}
    pages = {name: client.get(f"/api/docs/{name}").text for name in groups}
    for path, method, operation in operations(document):
        group, operation_id = operation["tags"][0], operation["operationId"]
        assert f'href="/api/docs/{group}#{operation_id}"' in index
        assert f'id="{operation_id}"' in pages[group]
        assert f"{method.upper()}</span> <code>{path}</code>" in pages[group]
    shown = set()
    for text in pages.values():
        ids = set(re.findall(r'id="([^"]+)"', text))
        assert set(re.findall(r'href="#([^"]+)"', text)) <= ids
        shown |= ids
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= shown
    assert sum(text.count('<span class="tag required">required</span>') for text in pages.values()) > 200


def test_a_page_is_a_part_of_the_documentation(sqlite_database: Database) -> None:
    """A page holds less than half of the documentation; a group that does not exist is a problem, as all of /api."""
    app = site.tell(sqlite_database).app
    client = TestClient(app)
    sizes = [len(client.get(f"/api/docs/{tag['name']}").text) for tag in app.openapi()["tags"]]
    assert max(sizes) < sum(sizes) / 2
    answer = client.get("/api/docs/nowhere", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
