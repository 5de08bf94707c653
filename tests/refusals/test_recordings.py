"""The reader of errors against recorded answers of Google's and Slack's: each sentence, and what mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.refusals.reader import explain

OUTSIDE = Path(__file__).parents[3] / "shared" / "outside" / "errors" / "bodies.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("recorded.json").read_text("utf-8"))

pytestmark = pytest.mark.skipif(
    not OUTSIDE.exists(), reason="the recordings of errors lie next to this repository only"
)


def _recordings() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads(OUTSIDE.read_text("utf-8"))}


def test_every_recording_has_its_expected_explanation() -> None:
    """The recordings and the expectations are of the same errors."""
    assert _recordings().keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_is_explained_in_these_words(name: str) -> None:
    """Kind, service, what lacks, the sentence and the step that mends it, word for word."""
    one = _recordings()[name]
    answer = json.dumps(one["body"]) if "body" in one else one["text"]
    reading = explain(answer).as_json()
    assert {key: reading[key] for key in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_names_the_service_that_answered(name: str) -> None:
    """The service is the recording's, but for an old text about scopes, which several services wrote."""
    if name != "G-scope-r":
        assert EXPECTED[name]["service"] == _recordings()[name]["service"]
