"""Series of Spot availability: read as they were published, and refused where they are torn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.deadlines.series import read_folder, read_series, series_of, together
from costguard.errors import Invalid

PLAIN: dict[str, Any] = {"metadata": {"gap_seconds": 195}, "data": [1, 1, 0, 1]}


def test_plain_series_is_read() -> None:
    """The published form: a gap in seconds, and 1 where a VM could be had."""
    series = series_of(PLAIN, "us-west-2a_v100_1")
    assert series.ups == (True, True, False, True)
    assert series.hours == pytest.approx(4 * 195 / 3600)
    assert series.prices == ()


def test_series_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Editors on Windows begin a file of UTF-8 with one (RFC 8259, section 8.1: readers may ignore it)."""
    path = tmp_path / "us-west-2a_v100_1.json"
    path.write_text(json.dumps(PLAIN), encoding="utf-8-sig")
    assert read_series(path).ups == (True, True, False, True)


def test_series_of_several_vms_is_up_where_all_could_be_had() -> None:
    """Files with four nodes count from 0 to 4: a job that needs them all waits for the fourth."""
    assert series_of({**PLAIN, "data": [4, 3, 0, 4]}, "four").ups == (True, False, False, True)


def test_series_that_was_never_up_stays_down() -> None:
    """Zeroes alone are no availability at all."""
    assert not any(series_of({**PLAIN, "data": [0, 0]}, "none").ups)


def test_prices_of_each_point_and_of_the_region_are_read() -> None:
    """Both published forms: a price a point, and `price_info` with Spot and on demand."""
    assert series_of({**PLAIN, "prices": [0.9, 0.9, 1.1, 1.0]}, "aws").price_at(2) == 1.1
    info = {"gap_seconds": 600, "price_info": {"price": 18.97, "on_demand_price": 82.5, "region": "us-west1"}}
    series = series_of({"metadata": info, "data": [1, 0]}, "us-west1-a_h100_16")
    assert series.price_at(1) == 18.97
    assert series.on_demand_price == 82.5


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "no JSON object"),
        ({"data": [1, 0]}, 'no object "metadata"'),
        ({"metadata": {}, "data": [1, 0]}, "gap"),
        ({"metadata": {"gap_seconds": 0}, "data": [1, 0]}, "gap"),
        ({"metadata": {"gap_seconds": True}, "data": [1, 0]}, "gap"),
        ({"metadata": {"gap_seconds": float("inf")}, "data": [1, 0]}, "gap"),
        ({"metadata": {"gap_seconds": 10**400}, "data": [1, 0]}, "gap"),
        ({"metadata": {"gap_seconds": 60}}, 'no list "data"'),
        ({"metadata": {"gap_seconds": 60}, "data": [1]}, "1 points"),
        ({"metadata": {"gap_seconds": 60}, "data": [1, None]}, "data[1]"),
        ({"metadata": {"gap_seconds": 60}, "data": [1, -1]}, "data[1]"),
        ({"metadata": {"gap_seconds": 60}, "data": [1, float("nan")]}, "data[1]"),
        ({**PLAIN, "prices": [1.0]}, "prices"),
        ({**PLAIN, "prices": [1.0, 1.0, 0, 1.0]}, "prices[2]"),
        ({"metadata": {"gap_seconds": 60, "price_info": 3}, "data": [1, 0]}, "price_info"),
        ({"metadata": {"gap_seconds": 60, "price_info": {"price": "free"}}, "data": [1, 0]}, "price_info.price"),
    ],
)
def test_torn_series_is_refused_with_its_name_and_place(document: object, says: str) -> None:
    """The error names the file, and what in it is wrong."""
    with pytest.raises(Invalid, match=r"zone\.json") as refused:
        series_of(document, "zone", path="zone.json")
    assert says in str(refused.value)


def test_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    """Half a download is no series."""
    torn = tmp_path / "us-west-2a_v100_1.json"
    torn.write_text(json.dumps(PLAIN)[:-9])
    with pytest.raises(Invalid, match=r"us-west-2a_v100_1\.json is not whole JSON"):
        read_series(torn)


def test_folder_without_series_is_refused(tmp_path: Path) -> None:
    """An empty folder, or none, is a mistake in the command."""
    with pytest.raises(Invalid, match="no series"):
        read_folder(tmp_path)
    with pytest.raises(Invalid, match="is not a folder"):
        read_folder(tmp_path / "none")


def test_zones_of_one_recording_are_of_one_folder_gap_and_vm(tmp_path: Path) -> None:
    """Two VMs recorded at the same time in one folder are two recordings: a job needs one of them."""
    for name in ("a/us-west-2a_v100_1", "a/us-west-2b_v100_1", "a/us-west-2a_k80_8", "b/us-west-2a_v100_1"):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(PLAIN))
    recordings = together(read_folder(tmp_path))
    assert sorted(len(recording) for recording in recordings) == [1, 1, 2]
