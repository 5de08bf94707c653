"""The pages API: the OpenAPI document for people, a page for each group, without anything from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request
from starlette.responses import HTMLResponse

from costguard.pages.page import Given, page_router

_METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/"

router = page_router()


@dataclass(frozen=True, slots=True)
class DocPart:
    """A parameter, or a field of a body or an answer. `schemas`: names of the schemas in its type, for links."""

    name: str
    type: str
    is_required: bool
    text: str
    where: str = ""  # of a parameter: path, query or header
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocAnswer:
    status: str
    text: str
    kinds: tuple[str, ...]
    schemas: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class DocOperation:
    id: str
    method: str
    path: str
    summary: str
    text: str
    who: str  # which token it needs
    parameters: tuple[DocPart, ...]
    body: tuple[str, ...]  # the names of the body's schemas
    body_example: str
    answers: tuple[DocAnswer, ...]


@dataclass(frozen=True, slots=True)
class DocGroup:
    name: str
    text: str
    operations: tuple[DocOperation, ...]


@dataclass(frozen=True, slots=True)
class DocSchema:
    name: str
    text: str
    parts: tuple[DocPart, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiDocs:
    title: str
    version: str
    text: str
    groups: tuple[DocGroup, ...]
    schemas: tuple[DocSchema, ...]


@router.get("/api/docs")
def show_api_docs(request: Request, pages: Given) -> HTMLResponse:
    """Every operation by group, from the same document as /openapi.json."""
    return pages.render(request, "api_docs.html", docs=read(request.app.openapi()))


@router.get("/api/docs/{name}")
def show_api_group(request: Request, pages: Given, name: str) -> HTMLResponse:
    """Shows one group: its operations in full, and the schemas that they use."""
    docs = read(request.app.openapi())
    group = next((group for group in docs.groups if group.name == name), None)
    if group is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return pages.render(request, "api_group.html", docs=docs, group=group, schemas=schemas_of(group, docs.schemas))


def schemas_of(group: DocGroup, schemas: Sequence[DocSchema]) -> list[DocSchema]:
    """Returns the schemas that the group's operations name, and those that these name, at any depth."""
    by_name = {schema.name: schema for schema in schemas}
    named: set[str] = set()
    waiting: list[str] = []
    for operation in group.operations:
        waiting += operation.body
        waiting += [name for part in operation.parameters for name in part.schemas]
        waiting += [name for answer in operation.answers for name in answer.schemas]
    while waiting:
        if (name := waiting.pop()) not in named:
            named.add(name)
            waiting += [name for part in by_name[name].parts for name in part.schemas]
    return [schema for schema in schemas if schema.name in named]


def read(document: Mapping[str, Any]) -> ApiDocs:
    """Reads an OpenAPI 3.1 document with a tag on every operation."""
    operations = [
        (operation["tags"][0], _operation(path, method, operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    groups = tuple(
        DocGroup(tag["name"], tag["description"], tuple(entry for name, entry in operations if name == tag["name"]))
        for tag in document["tags"]
    )
    info = document["info"]
    return ApiDocs(
        info["title"],
        info["version"],
        info["description"],
        tuple(group for group in groups if group.operations),
        tuple(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())),
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> DocOperation:
    security = operation["security"]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return DocOperation(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation["description"],
        next(iter(security[0])) if security else "",
        tuple(_parameter(parameter) for parameter in operation.get("parameters", ())),
        tuple(_named(content.get("schema", {}))),
        _shown(content),
        tuple(_answer(status, answer) for status, answer in operation["responses"].items()),
    )


def _parameter(parameter: Mapping[str, Any]) -> DocPart:
    schema = parameter["schema"]
    text = parameter.get("description", schema.get("description", ""))
    is_required = parameter.get("required", False)
    return DocPart(parameter["name"], _type(schema), is_required, text, parameter["in"], tuple(_named(schema)))


def _answer(status: str, answer: Mapping[str, Any]) -> DocAnswer:
    content = answer.get("content", {})
    schemas = tuple(dict.fromkeys(name for media in content.values() for name in _named(media.get("schema", {}))))
    return DocAnswer(
        status, answer["description"], tuple(content), schemas, _shown(content.get("application/json", {}))
    )


def _schema(name: str, schema: Mapping[str, Any]) -> DocSchema:
    required = frozenset(schema.get("required", ()))
    parts = tuple(
        DocPart(name, _type(part), name in required, part.get("description", ""), "", tuple(_named(part)))
        for name, part in schema.get("properties", {}).items()
    )
    return DocSchema(name, schema.get("description", ""), parts, tuple(str(value) for value in schema.get("enum", ())))


def _type(schema: Mapping[str, Any]) -> str:
    """Describes a type in a few words: `string (date-time) or null`, `list of Instance`, `one of day, week, month`."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return "one of " + ", ".join('""' if value == "" else str(value) for value in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, Mapping) and values else "object"
    name = str(schema.get("type", "anything"))
    return f"{name} ({schema['format']})" if "format" in schema else name


def _named(schema: Mapping[str, Any]) -> Iterator[str]:
    """The schemas that this one refers to, at any depth, each once."""
    yield from dict.fromkeys(_references(schema))


def _references(schema: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield str(schema["$ref"]).removeprefix(_REF)
        for part in schema.values():
            if isinstance(part, (Mapping, list)):
                yield from _references(part)
    else:
        for part in schema:
            if isinstance(part, (Mapping, list)):
                yield from _references(part)


def _shown(content: Mapping[str, Any]) -> str:
    return json.dumps(content["example"], indent=2, ensure_ascii=False) if "example" in content else ""
