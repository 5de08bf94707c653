"""Partial responses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard_sandbox.gce.responses import BadMask, compile_mask

SCHEDULING = {"preemptible": True, "onHostMaintenance": "TERMINATE"}
PAGE: dict[str, Any] = {
    "kind": "compute#instanceAggregatedList",
    "items": {
        "zones/a": {"instances": [{"id": "1", "name": "one", "scheduling": SCHEDULING}]},
        "zones/b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
    },
    "nextPageToken": "t",
}


@pytest.mark.parametrize(
    ("mask", "kept"),
    [
        ("kind", {"kind": PAGE["kind"]}),
        ("kind,nextPageToken", {"kind": PAGE["kind"], "nextPageToken": "t"}),
        ("absent", {}),
        ("items/*/instances/id", {"items": {"zones/a": {"instances": [{"id": "1"}]}, "zones/b": {}}}),
        (
            "items/*/instances(id,scheduling/preemptible),nextPageToken",
            {
                "items": {"zones/a": {"instances": [{"id": "1", "scheduling": {"preemptible": True}}]}, "zones/b": {}},
                "nextPageToken": "t",
            },
        ),
        ("items.*.warning", {"items": {"zones/a": {}, "zones/b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}}),
        (
            "items(*/instances(id), */warning/code)",
            {
                "items": {
                    "zones/a": {"instances": [{"id": "1"}]},
                    "zones/b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
                }
            },
        ),
        (
            "items/*/instances/scheduling,items/*/instances/scheduling/preemptible",
            {"items": {"zones/a": {"instances": [{"scheduling": SCHEDULING}]}, "zones/b": {}}},
        ),
        ("*", PAGE),
        ("", PAGE),
    ],
)
def test_a_mask_keeps_what_it_names_and_nothing_else(mask: str, kept: dict[str, Any]) -> None:
    """Paths, groups, wildcards over maps and lists on the way all select as Google's `fields` does."""
    assert compile_mask(mask)(PAGE) == kept


def test_a_key_named_with_a_wildcard_gets_the_union_of_both() -> None:
    """`*/a,x/b` keeps a of every entry, and b of x too."""
    value = {"x": {"a": 1, "b": 2, "c": 3}, "y": {"a": 1, "b": 2}}
    assert compile_mask("*/a,x/b")(value) == {"x": {"a": 1, "b": 2}, "y": {"a": 1}}


def test_the_masked_answer_is_no_part_of_the_original() -> None:
    """Answers share the world's own resources, so that a mask must never change them."""
    before = repr(PAGE)
    kept = compile_mask("items/*/instances(id)")(PAGE)
    kept["items"]["zones/a"]["instances"][0]["id"] = "changed"
    assert repr(PAGE) == before


@pytest.mark.parametrize("mask", ["a(", "a)", "a(b", "(a)", "a//b", "a,", ",a", "a b", "a/", "é", "a(b)c"])
def test_an_invalid_mask_is_refused(mask: str) -> None:
    """The API answers 400 to such a mask; it never guesses."""
    with pytest.raises(BadMask, match="Invalid field selection"):
        compile_mask(mask)


@given(st.text(alphabet="ab*(),/. ", max_size=20))
def test_any_text_is_either_a_mask_or_refused(mask: str) -> None:
    """No text, however odd, makes the server fail."""
    try:
        keep = compile_mask(mask)
    except BadMask:
        return
    keep(PAGE)
