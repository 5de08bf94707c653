"""The types and calls of the Python client, generated from the API's OpenAPI document."""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.golden import flyte_options

_DOCUMENT = Path(__file__).with_name("files") / "openapi" / "openapi.json"  # which a golden test holds against the API
_PREFIX = "#/components/schemas/"
_NOT_FOR_CLIENTS = {"agents", "metrics"}  # tags: agents have their own, and metrics are text for Prometheus
_NO_JSON = {"downloadOutput", "exportFocus", "streamEvents"}
_LEFT_OUT = {"format"}  # parameters: `Accept` says the same
_WIDTH = 108
_SCHEMAS = '''\
"""What the API takes and answers. Generated from its document by `python -m tests.golden api`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

'''
_OPERATIONS = '''\
"""Every call of the API. Generated from its document by `python -m tests.golden api`: do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Literal

from costguard_client.calls import Call

if TYPE_CHECKING:
    from costguard_client.api import schemas

'''


def texts() -> Mapping[str, str]:
    document = json.loads(_DOCUMENT.read_text("utf-8"))
    operations = list(_operations(document))
    names = _reachable(document, [json.dumps(operation) for _, _, operation in operations])
    schemas = "\n".join(_schema(name, document["components"]["schemas"][name]) for name in names)
    calls = "\n\n".join(_call(path, method, operation) for path, method, operation in operations)
    return {
        "api/__init__.py": "",
        "api/schemas.py": _formatted(_SCHEMAS + schemas),
        "api/operations.py": _formatted(_OPERATIONS + calls),
        "api/task_options.py": _formatted(flyte_options.text()),
    }


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            if not _NOT_FOR_CLIENTS & set(operation["tags"]) and operation["operationId"] not in _NO_JSON:
                yield path, method, operation


def _reachable(document: Mapping[str, Any], texts: list[str]) -> list[str]:
    """The schemas that these texts name, and those that they name in turn; without errors, which are exceptions."""
    names: set[str] = set()
    while texts:
        new = set(re.findall(rf'"{_PREFIX}(\w+)"', texts.pop())) - names - {"Problem"}
        names |= new
        texts += [json.dumps(document["components"]["schemas"][name]) for name in new]
    return sorted(names)


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"{name} = {_type(schema, is_sent=False)}\n"
    is_sent = name.endswith("Body")
    required = set(schema.get("required", ()))
    fields = {}
    for key, part in schema["properties"].items():
        annotation = _type(part, is_sent=is_sent)
        fields[key] = annotation if key in required else f"NotRequired[{annotation}]"
    if any(keyword.iskeyword(key) for key in fields):
        inside = ", ".join(f'"{key}": {annotation!r}' for key, annotation in fields.items())
        return f'{name} = TypedDict("{name}", {{{inside}}})\n'
    lines = [f"class {name}(TypedDict):"]
    if text := schema.get("description", ""):
        lines.append(_docstring(text))
    for key, annotation in fields.items():
        lines.append(f"    {key}: {annotation}")
        if text := schema["properties"][key].get("description", ""):
            lines.append(_docstring(text))
    return "\n".join(lines) + "\n\n"


def _call(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = path.strip("/").split("/")
    names = [part[1:-1] for part in parts if part.startswith("{")]
    arguments = [f"{name}: str | int" if name == "request_id" else f"{name}: str" for name in names]
    queries = [one for one in operation.get("parameters", ()) if one["in"] == "query" and one["name"] not in _LEFT_OUT]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    has_key = any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", ()))
    if body is not None:
        arguments.append(f"body: {_type(body, is_sent=True, prefix='schemas.')}")
    named = []
    for one in queries:
        annotation = _type(one["schema"], is_sent=True, prefix="schemas.", is_query=True)
        is_needed = one.get("required", False)
        named.append(
            f"{_argument(one['name'])}: {annotation}" + ("" if is_needed else f"{_or_none(annotation)} = None")
        )
    named += ["key: str | None = None"] if has_key else []
    answers = {
        _type(content["schema"], is_sent=False, prefix="schemas.")
        for status, answer in operation["responses"].items()
        if status.startswith("2")
        for kind, content in answer["content"].items()
        if kind == "application/json"
    }
    result = f"Call[{' | '.join(sorted(answers))}]"
    signature = ", ".join([*arguments, *(["*", *named] if named else [])])
    sent = ", ".join(_path_part(part) for part in parts)
    details = [f'"{method.upper()}"', f"({sent}{'' if len(parts) > 1 else ','})"]
    if queries:
        details.append("{" + ", ".join(f'"{one["name"]}": {_argument(one["name"])}' for one in queries) + "}")
    details += ["body=body"] if body is not None else []
    details += ["key=key"] if has_key else []
    summary = operation["summary"] + ". " + operation.get("description", "").replace("\n", " ")
    return (
        f"def {_snake(operation['operationId'])}({signature}) -> {result}:\n"
        f"{_docstring(' '.join(summary.split()))}\n    return Call({', '.join(details)})\n"
    )


def _type(schema: Mapping[str, Any], *, is_sent: bool, prefix: str = "", is_query: bool = False) -> str:
    def inner(part: Mapping[str, Any]) -> str:
        return _type(part, is_sent=is_sent, prefix=prefix, is_query=is_query)

    if "$ref" in schema:
        return prefix + str(schema["$ref"]).removeprefix(_PREFIX)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(inner(part) for part in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return f"Literal[{', '.join(json.dumps(value) for value in values)}]"
    match schema.get("type"):
        case "array":
            return f"{'Sequence' if is_sent else 'list'}[{inner(schema['items'])}]"
        case "object":
            extra = schema.get("additionalProperties")
            value = inner(extra) if isinstance(extra, dict) else "Any"
            return f"{'Mapping' if is_sent else 'dict'}[str, {value}]"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "None"
        case "string" if is_sent and schema.get("format") == "date-time":
            return "datetime | str"
        case "string" if is_sent and schema.get("format") == "date":
            return "date | str"
        case "string" if is_sent and not is_query and "Dollars" in schema.get("description", ""):
            return "Decimal | str"
        case "string":
            return "str"
    return "Any"


def _or_none(annotation: str) -> str:
    return "" if annotation.endswith("| None") else " | None"


def _argument(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _path_part(part: str) -> str:
    if not part.startswith("{"):
        return f'"{part}"'
    return "str(request_id)" if part == "{request_id}" else part[1:-1]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _docstring(text: str) -> str:
    text = text.replace("\\", "\\\\")
    text = f"{text}." if text[-1].isalnum() else text
    lines = textwrap.wrap(f'"""{text}', _WIDTH)
    if len(lines) == 1:
        return f'    {lines[0]}"""'
    return textwrap.indent("\n".join([*lines, '"""']), "    ")


def _formatted(text: str) -> str:
    """Formats text as ruff does, so that its check passes."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "generated.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
