"""The reader of errors against what people quoted in public issue threads, each with its source.

Those of the first look were collected before the rules were written, those of the second and third while they stood:
docs/errors.md comes to its figures by what the reader said of these at first sight.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.refusals.explanation import RefusalKind
from costguard.refusals.reader import explain

QUOTATIONS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("quotations.json").read_text("utf-8"))
_IDS = [one["id"] for one in QUOTATIONS]


def _answer(one: dict[str, Any]) -> str:
    return json.dumps(one["body"]) if "body" in one else str(one["text"])


@pytest.mark.parametrize("one", QUOTATIONS, ids=_IDS)
def test_each_quotation_is_of_its_kind(one: dict[str, Any]) -> None:
    """The kind is what its thread established."""
    assert explain(_answer(one)).kind == one["kind"]


@pytest.mark.parametrize("one", QUOTATIONS, ids=_IDS)
def test_what_a_quotation_names_is_in_its_explanation(one: dict[str, Any]) -> None:
    """The permission, API, quota with its limit, constraint, zone or account."""
    explanation = json.dumps(explain(_answer(one)).as_json()).lower()
    assert [name for name in one["names"] if name.lower() not in explanation] == []


def test_nearly_every_quotation_is_of_its_service() -> None:
    """Some do not say who answered; where it is not certain the service is unknown."""
    wrong = [(one["id"], read) for one in QUOTATIONS if (read := explain(_answer(one)).service) != one["service"]]
    assert len(wrong) <= 4, wrong


def test_no_policy_perimeter_or_scope_is_called_a_missing_role() -> None:
    """Each of their explanations says so, and no command grants a role."""
    kinds = (RefusalKind.VPC_SERVICE_CONTROLS, RefusalKind.ORG_POLICY, RefusalKind.SCOPE)
    held = [explain(_answer(one)) for one in QUOTATIONS if one["kind"] in kinds]
    assert len(held) > 10
    for reading in held:
        assert "add-iam-policy-binding" not in reading.mend
        assert "not a missing role" in reading.sentence or "not an IAM role" in reading.sentence
        assert reading.missing.permissions == ()
