"""The page of the API's documentation."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient
from tests.browser import site

from costguard.api.document import operations
from costguard.db.transaction import Database


def test_every_operation_and_schema_of_the_document_is_on_the_page(sqlite_database: Database) -> None:
    """With its method, its path, what is required, and links that lead somewhere on the page."""
    app = site.tell(sqlite_database).app
    text = TestClient(app).get("/api/docs").text
    document = app.openapi()
    for path, method, operation in operations(document):
        assert f'id="{operation["operationId"]}"' in text
        assert f"{method.upper()}</span> <code>{path}</code>" in text
    ids = set(re.findall(r'id="([^"]+)"', text))
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= ids
    assert set(re.findall(r'href="#([^"]+)"', text)) <= ids
    assert text.count('<span class="tag required">required</span>') > 200
