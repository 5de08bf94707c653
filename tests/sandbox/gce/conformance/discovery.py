"""Does an answer look as Compute Engine's own description of its API says it must?

The description is the one that google-api-python-client bundles; nothing is fetched.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from googleapiclient.discovery_cache import get_static_doc

Schema = Mapping[str, Any]
_PATTERNS = {"int64": r"-?\d+", "uint64": r"\d+", "byte": r"[A-Za-z0-9+/_-]*={0,2}"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}


@cache
def schemas(api: str = "compute") -> Mapping[str, Schema]:
    """Every schema of an API, by name."""
    schemas: Mapping[str, Schema] = json.loads(get_static_doc(api, "v1"))["schemas"]
    return schemas


def schema_of(kind: str) -> str | None:
    """The name of the schema whose `kind` has this value, such as `compute#instance`."""
    for name, schema in schemas().items():
        if schema.get("properties", {}).get("kind", {}).get("default") == kind:
            return name
    return None


def problems_of(resource: Mapping[str, Any]) -> list[str]:
    """Lists what is wrong with a resource that names its own kind; empty when nothing is."""
    name = schema_of(str(resource.get("kind")))
    return [f"no schema has the kind {resource.get('kind')!r}"] if name is None else problems(resource, name)


def problems(value: object, name: str, api: str = "compute") -> list[str]:
    """Lists what is wrong with a value that should be of the named schema."""
    return list(_check(value, {"$ref": name}, name, schemas(api)))


def _check(value: object, schema: Schema, path: str, schemas: Mapping[str, Schema]) -> Iterator[str]:
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type", "any")
    if kind == "any":
        return
    wrong_bool = isinstance(value, bool) and kind in ("integer", "number")
    if not isinstance(value, _TYPES[kind]) or wrong_bool:
        yield f"{path}: {value!r} is no {kind}"
    elif isinstance(value, str):
        pattern = _PATTERNS.get(schema.get("format", ""))
        if pattern and not re.fullmatch(pattern, value):
            yield f"{path}: {value!r} is no {schema['format']}"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path}: {value!r} is none of the values there are"
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _check(element, schema["items"], f"{path}[{index}]", schemas)
    elif isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, member in value.items():
            if key in fields:
                yield from _check(member, fields[key], f"{path}.{key}", schemas)
            elif others is not None:
                yield from _check(member, others, f"{path}[{key}]", schemas)
            else:
                yield f"{path}: there is no field {key!r}"
