"""The reference of the REST API: each operation of the OpenAPI document, with the permission that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.api import story
from tests.golden.databases import migrated
from tests.web.test_routes import table

_HEAD = """# REST API

<!-- Generated: python -m tests.golden reference -->

The server describes its API itself: `/openapi.json` is the OpenAPI document, with schemas and examples, and `/api/docs`
shows it as a page. Requests carry a token, `Authorization: Bearer TOKEN`; `costguard token create` makes one.
"""
_FOOT = """
## Slack

`POST /slack/interactions` and `POST /slack/commands` receive Slack's callbacks. They take no token: each is signed by
Slack, at most five minutes old and good for once. Everything else is answered 401 and counted.
"""


def text() -> str:
    with migrated() as database:
        sample = story.make_story(database)
        document = sample.app.openapi()
        needs = {(route.method, route.path): route.needs for route in table(sample.app)}
        sample.authenticator.close()
    lines = [_HEAD, document["info"]["description"].strip()]
    for tag in document["tags"]:
        lines += [f"\n## {tag['name'].capitalize()}\n", tag["description"]]
        for path, method, operation in _operations(document, tag["name"]):
            needed = needs[method.upper(), path]
            lines += ["", *_section(path, method, operation, needed.value if needed else "", document)]
    return "\n".join(lines) + _FOOT


def _operations(document: Mapping[str, Any], tag: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield path, method, operation


def _section(
    path: str, method: str, operation: Mapping[str, Any], needed: str, document: Mapping[str, Any]
) -> Iterator[str]:
    yield f"### {method.upper()} `{path}`\n"
    yield f"**{operation['summary']}.** {' '.join(operation['description'].split())}"
    if needed:
        yield f"Permission: `{needed}`."
    parameters = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
    body = _schema(operation.get("requestBody", {}).get("content", {}).get("application/json", {}), document)
    if parameters:
        yield "\n| Parameter | Meaning |\n|---|---|"
        yield from (f"| `{one['name']}` | {_cell(one.get('description', ''))} |" for one in parameters)
    if body:
        required = set(body.get("required", ()))
        yield "\n| Body | Meaning |\n|---|---|"
        for name, part in body.get("properties", {}).items():
            yield f"| `{name}`{', required' if name in required else ''} | {_cell(part.get('description', ''))} |"


def _schema(content: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = content.get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
