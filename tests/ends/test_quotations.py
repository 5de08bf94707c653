"""The reader of ends against what people quoted in public issue threads, each with its source.

The classes are what the threads established. The four looks were read one after another: the reader was not changed
between collecting a look and judging it first, which is how docs/ends.md comes to its figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard.ends.reader import read_end
from costguard.ends.values import EndClass, LogState
from costguard.model.attempt import Retry

QUOTATIONS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("quotations.json").read_text("utf-8"))
OUTSIDE = Path(__file__).parents[3] / "shared" / "outside" / "crash-logs" / "excerpts.json"
_CLASSES = {
    "nccl-timeout": EndClass.COLLECTIVE_TIMEOUT,
    "host memory": EndClass.HOST_MEMORY,
    "gpu memory": EndClass.GPU_MEMORY,
    "bug of the program": EndClass.PROGRAM,
    "no fault": EndClass.UNKNOWN,
    "silence, then recovery": EndClass.HANG,
}
_LEAST_RIGHT = 0.95  # of what the rules have seen; what they have not seen stands in docs/ends.md


def test_the_class_of_nearly_every_quotation_is_right() -> None:
    """A quotation is known to be read wrongly: a checkpoint that cannot be opened, because the disk was full."""
    wrong = [one["source"] for one in QUOTATIONS if read_end(one["log"]).end_class != one["class"]]
    assert 1 - len(wrong) / len(QUOTATIONS) >= _LEAST_RIGHT, wrong


def test_no_cause_is_named_where_the_thread_found_none() -> None:
    """A class is not a cause: why a process was killed, waited or printed NaN the line itself rarely says."""
    unknown = [one for one in QUOTATIONS if not one["is_cause_known"]]
    assert len(unknown) > 20
    assert [one["source"] for one in unknown if read_end(one["log"]).is_cause_known] == []


def test_what_goes_on_is_never_called_dead() -> None:
    """Neither a loss of NaN nor a skipped step ends a run: apex names its scaler "loss scaler 0"."""
    alive = [one for one in QUOTATIONS if one["is_alive"]]
    assert len(alive) > 5
    assert [one["source"] for one in alive if read_end(one["log"]).state is LogState.DEAD] == []


@pytest.mark.skipif(not OUTSIDE.exists(), reason="the recordings of crashes lie next to this repository only")
def test_the_recordings_are_read_as_their_threads_ended() -> None:
    """Class in at least four of five; no cause where it is unknown; nothing alive is dead; no attempt in vain."""
    excerpts = json.loads(OUTSIDE.read_text("utf-8"))
    readings = [(one, read_end(one["log"])) for one in excerpts]
    right = sum(reading.end_class == _CLASSES.get(one["cls"], one["cls"]) for one, reading in readings)
    assert right >= 0.8 * len(excerpts)
    for one, reading in readings:
        if one["certainty"].startswith("unknown"):
            assert not reading.is_cause_known, one["id"]
        if one["alive"].lower().startswith("alive"):
            assert reading.state is not LogState.DEAD, one["id"]
        if one["cls"] in ("bug of the program", "nan", "disk"):
            assert reading.retry is Retry.NO, one["id"]
        if one["cls"] in ("network", "host memory"):
            assert reading.retry is Retry.SAME, one["id"]
        if one["cls"] == "hardware":
            assert reading.retry is Retry.OTHER_VM, one["id"]
