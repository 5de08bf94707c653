"""The OpenAPI document: what FastAPI knows about the routes, and what applies to all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from costguard.web import problems

_EXAMPLES = Path(__file__).with_name("examples.json")
_OPEN = ("/healthz", "/readyz")
_STREAM = "/api/v1/events/stream"
_AGENTS = "/api/v1/attempts/"

_TAGS = {
    "instances": "VMs: what each costs and why, their lifetimes, and requests to stop, keep, claim or disown them.",
    "jobs": "Jobs: launched, quoted, followed and cancelled, and the zones they can run in.",
    "stages": "Data that is kept near the VMs, and what storing it costs.",
    "sweeps": "Sweeps: a job for each set of parameters, with a common ceiling.",
    "schedules": "Schedules: a job from a template at times in a time zone.",
    "spend": "Spend in any grouping, and savings.",
    "budgets": "Budgets, how much of them is spent, and forecasts.",
    "prices": "The price of a unit of each resource, and the prices that were refused.",
    "reminders": "Messages that were sent, a preview of the next, and stops.",
    "events": "The audit log: listed, searched and streamed.",
    "configuration": "The watched projects and the presets.",
    "metrics": "Metrics for Prometheus.",
    "tokens": "The caller, and the tokens that programs use.",
    "sessions": "Sessions of people who are signed in, and signing people out.",
    "health": "Checks that the process is alive, and that its answers can be trusted. No token is required.",
    "agents": "Reports of agents on VMs, each with its own token.",
}
_SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "COSTGUARD_TOKEN, or a token from POST /api/v1/tokens or `costguard token create`.",
    },
    "agent": {"type": "http", "scheme": "bearer", "description": "The token of one attempt, from its VM's metadata."},
}
_LICENCE = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
# Relative to where this document was read: the server does not know the name its callers use.
_SERVERS = [{"url": "/", "description": "The server that this document came from."}]
_HEADERS: Mapping[str, Mapping[str, Any]] = {
    "ETag": {
        "description": "A weak ETag that stays the same while only the time has changed.",
        "schema": {"type": "string"},
    },
    "Location": {"description": "The address of the result.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 1000},
    "description": "The ETag of an earlier response; 304 where nothing is new.",
    "example": 'W/"3f0a9c"',
}


def describe(app: FastAPI) -> None:
    """Replaces the application's document; it is made on the first request, once."""

    @cache
    def made() -> dict[str, Any]:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            license_info=_LICENCE,
            servers=_SERVERS,
            tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        )
        document["components"]["schemas"] |= _components()
        document["components"]["securitySchemes"] = _SECURITY
        document["paths"] = dict(sorted(document["paths"].items()))
        examples = json.loads(_EXAMPLES.read_bytes())
        for path, method, operation in operations(document):
            _complete(path, method, operation)
            _illustrate(operation, examples.get(operation["operationId"], {}))
        return document

    app.openapi = made  # type: ignore[method-assign]  # as FastAPI's manual does it


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each with its path and its method, in lower case."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    operation["security"] = [] if path in _OPEN else [{"agent" if path.startswith(_AGENTS) else "token": []}]
    answers = operation["responses"]
    if path == _STREAM:  # FastAPI writes itemSchema here, a keyword of OpenAPI 3.2 in a document of 3.1
        answers["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    if method == "get" and path.startswith("/api/v1/") and path != _STREAM:
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        answers["200"]["headers"] = {"ETag": _HEADERS["ETag"]}
        answers["304"] = {
            "description": "Nothing is new since the response with this ETag.",
            "headers": {"ETag": _HEADERS["ETag"]},
        }
    for status in ("201", "202"):
        if status in answers:
            answers[status]["headers"] = {"Location": _HEADERS["Location"]}
    if "429" in answers:
        answers["429"]["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    operation["responses"] = dict(sorted(answers.items()))


def _illustrate(operation: dict[str, Any], examples: Mapping[str, Any]) -> None:
    """`examples` are by status, and under `body` what is sent."""
    for status, example in examples.items():
        where = operation["requestBody"] if status == "body" else operation["responses"][status]
        for kind, content in where["content"].items():
            if kind.endswith("json"):
                content["example"] = example


def _components() -> dict[str, Any]:
    """The schemas that errors refer to."""
    schema = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), problems.Problem.__name__: schema}
