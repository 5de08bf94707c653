"""Pages and aggregated lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard_sandbox.gce.responses import BadPageToken, paginate
from costguard_sandbox.gce.routes.lists import aggregated


@given(rows=st.lists(st.integers(), max_size=60), size=st.integers(1, 20))
def test_pages_joined_give_every_row_once_and_in_order(rows: list[int], size: int) -> None:
    """Following the tokens loses nothing and repeats nothing, whatever the page size."""
    seen: list[int] = []
    token: str | None = None
    while True:
        page, token = paginate(rows, size, token)
        assert len(page) <= size
        seen += page
        if token is None:
            break
    assert seen == rows


@pytest.mark.parametrize("size", [0, 500, 501, 10_000])
def test_a_page_never_holds_more_than_500(size: int) -> None:
    """500 is both the default of maxResults and its ceiling."""
    page, token = paginate(range(1200), size, None)
    assert len(page) == 500
    assert token is not None


@pytest.mark.parametrize("token", ["rubbish", "é", "500", "YWZ0ZXI6LTE", "====", "YWZ0ZXI6eA"])
def test_an_unknown_page_token_is_refused(token: str) -> None:
    """An unknown token must not start the list from the beginning."""
    with pytest.raises(BadPageToken, match="pageToken"):
        paginate([1, 2, 3], 2, token)


def test_an_aggregated_list_names_every_scope_on_every_page() -> None:
    """An empty scope says so, an unreachable one says that instead, and neither is left out."""
    answer = aggregated(
        "compute#instanceAggregatedList",
        "instances",
        {"zones/a": [{"id": "1"}], "zones/c": [{"id": "2"}]},
        ["zones/a", "zones/b", "zones/c"],
        "http://cloud/compute/v1/projects/p/aggregated/instances",
        "next",
        ["zones/c"],
    )
    assert answer["items"]["zones/a"] == {"instances": [{"id": "1"}]}
    assert answer["items"]["zones/b"] == {
        "warning": {
            "code": "NO_RESULTS_ON_PAGE",
            "message": "There are no results for scope 'zones/b' on this page.",
            "data": [{"key": "scope", "value": "zones/b"}],
        }
    }
    assert answer["items"]["zones/c"]["warning"]["code"] == "UNREACHABLE"
    assert "instances" not in answer["items"]["zones/c"]
    assert (answer["id"], answer["nextPageToken"]) == ("projects/p/aggregated/instances", "next")
    assert answer["unreachables"] == ["zones/c"]
