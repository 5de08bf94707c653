"""The API for people: its OpenAPI document as one page, without a script and without anything from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Part:
    """A parameter, or a field of a body or an answer. `schemas`: names of the schemas in its type, for links."""

    name: str
    type: str
    is_required: bool
    text: str
    where: str = ""  # of a parameter: path, query or header
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    text: str
    kinds: tuple[str, ...]
    schemas: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    summary: str
    text: str
    who: str  # which token it needs
    parameters: tuple[Part, ...]
    body: tuple[str, ...]  # the names of the body's schemas
    body_example: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    text: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    text: str
    parts: tuple[Part, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiDocs:
    title: str
    version: str
    text: str
    groups: tuple[Group, ...]
    schemas: tuple[Schema, ...]


def read(document: Mapping[str, Any]) -> ApiDocs:
    """From an OpenAPI 3.1 document with a tag on every operation."""
    operations = [
        (operation["tags"][0], _operation(path, method, operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    groups = tuple(
        Group(tag["name"], tag["description"], tuple(found for name, found in operations if name == tag["name"]))
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


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Operation:
    security = operation["security"]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation["description"],
        next(iter(security[0])) if security else "",
        tuple(_parameter(each) for each in operation.get("parameters", ())),
        tuple(_named(content.get("schema", {}))),
        _shown(content),
        tuple(_answer(status, answer) for status, answer in operation["responses"].items()),
    )


def _parameter(of: Mapping[str, Any]) -> Part:
    schema = of["schema"]
    text = of.get("description", schema.get("description", ""))
    return Part(of["name"], _type(schema), of.get("required", False), text, of["in"], tuple(_named(schema)))


def _answer(status: str, of: Mapping[str, Any]) -> Answer:
    content = of.get("content", {})
    schemas = tuple(dict.fromkeys(name for each in content.values() for name in _named(each.get("schema", {}))))
    return Answer(status, of["description"], tuple(content), schemas, _shown(content.get("application/json", {})))


def _schema(name: str, of: Mapping[str, Any]) -> Schema:
    required = frozenset(of.get("required", ()))
    parts = tuple(
        Part(part, _type(schema), part in required, schema.get("description", ""), "", tuple(_named(schema)))
        for part, schema in of.get("properties", {}).items()
    )
    return Schema(name, of.get("description", ""), parts, tuple(str(value) for value in of.get("enum", ())))


def _type(schema: Mapping[str, Any]) -> str:
    """In a few words: `string (date-time) or null`, `list of Instance`, `one of day, week, month`."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
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
        for each in schema.values():
            if isinstance(each, (Mapping, list)):
                yield from _references(each)
    else:
        for each in schema:
            if isinstance(each, (Mapping, list)):
                yield from _references(each)


def _shown(content: Mapping[str, Any]) -> str:
    return json.dumps(content["example"], indent=2, ensure_ascii=False) if "example" in content else ""
