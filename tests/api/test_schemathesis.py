"""The API answers within and without the OpenAPI document as the document says."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.api import story
from tests.api.story import ADA, ROOT, VIC

from costguard.db.transaction import Database
from costguard.model.access import Role

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TIMES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 1}  # of each operation
# What right requests are about, where there is something; wrong ones are about anything.
THERE = {
    "project": "lab",
    "gce_id": "4711",
    "job_id": "j7k2m9q4",
    "attempt": "cg-j7k2m9q4-3",
    "token_id": "0000000000",
    "session_id": "0000000000000000",
    "request_id": 1,
    "kind": "job-over",
}


def test_every_answer_is_in_the_document(sqlite_database: Database) -> None:
    """No 5xx, no undocumented status, type or shape, for who may little and then for who may all; the seed is fixed."""
    lab = story.make_story(sqlite_database)
    lab.token(Role.OPERATOR, ADA)
    bearers = [f"Bearer {lab.token(role, who)}" for role, who in ((Role.VIEWER, VIC), (Role.ADMIN, ROOT))]
    schema = schemathesis.openapi.from_dict(lab.app.openapi())
    schema.app = lab.app
    answered = 0
    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        answered += sum(_ask(operation.ok(), mode, bearers) for mode in (*GenerationMode,))
    lab.authenticator.close()
    assert answered > 200


def _ask(operation: Any, mode: GenerationMode, bearers: list[str]) -> int:
    """Returns the number of requests that were answered."""
    answered, parameters = 0, None
    if mode is GenerationMode.POSITIVE:
        parameters = {name: value for name, value in THERE.items() if f"{{{name}}}" in operation.path} or None

    @seed(7)
    @settings(
        max_examples=TIMES[mode],
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=parameters))
    def ask(case: Case[Any]) -> None:
        nonlocal answered
        for bearer in bearers:
            case.call_and_validate(headers={"Authorization": bearer}, checks=CHECKS)
            answered += 1

    try:
        ask()
    except Unsatisfiable:  # nothing can be wrong with a request that has no parts
        assert mode is GenerationMode.NEGATIVE
    return answered
