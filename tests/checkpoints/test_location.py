"""Locations are parsed, and others refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from costguard.checkpoints.location import Location, check, parse
from costguard.errors import CheckpointLocationWrong
from costguard_vm.model.checkpoint import Framework, LookFor


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("gs://runs", Location("gs", "runs", "")),
        ("gs://runs/", Location("gs", "runs", "")),
        ("GS://runs/a b/c", Location("gs", "runs", "a b/c")),
        ("s3://my.runs-1/a/b/", Location("s3", "my.runs-1", "a/b")),
        ("file:///mnt/runs%20x", Location("file", "", "/mnt/runs x")),
        ("/mnt/runs", Location("file", "", "/mnt/runs")),
    ],
)
def test_locations(text: str, meant: Location) -> None:
    """A bucket with or without a path, a file address, a path."""
    assert parse(text) == meant


def test_a_relative_path_is_of_this_folder() -> None:
    """The path means what a shell means."""
    assert parse("runs").path == str(Path.cwd() / "runs")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no location"),
        ("  ", "is no location"),
        ("gs://", "cannot be a bucket's name"),
        ("gs:///path", "cannot be a bucket's name"),
        ("s3://Run_s!/x", "cannot be a bucket's name"),
        ("gs://runs/a//b", "is empty, . or .."),
        ("gs://runs/../other", "is empty, . or .."),
        ("http://host/x", "cannot be read from http://"),
        ("file://host/x", "has three slashes"),
        ("file:relative", None),
        ("gs://runs/a\nb", "is no location"),
        ("file:///a%00b", "is no location"),
    ],
)
def test_what_is_no_location(text: str, why: str | None) -> None:
    """Is refused before anything is asked, with how to write it; a name with a colon is a path like others."""
    if why is None:
        assert parse(text).scheme == "file"
        return
    with pytest.raises(CheckpointLocationWrong) as refused:
        parse(text)
    assert why in refused.value.message
    assert refused.value.what_next


@pytest.mark.parametrize(
    ("look_for", "why"),
    [
        (LookFor(pattern="ckpt.pt"), "does not say where the step stands"),
        (LookFor(pattern="*a" * 17 + "{step}"), "has 17 stars"),
        (LookFor(pattern="a" * 500 + "{step}"), "has 506 characters"),
        (LookFor(pattern="step_{step}/"), "nothing shows when one is complete"),
        (LookFor(pattern="/mnt/ckpt_{step}"), "is a whole path"),
        (LookFor(marker="gs://b/DONE"), "is a whole path"),
        (LookFor(Framework.FILES), "needs a pattern"),
        (LookFor(Framework.MARKER, pattern="{step}"), "needs a marker"),
        (LookFor(Framework.ORBAX, pattern="{step}"), "has its own layout"),
    ],
)
def test_what_does_not_go_together(look_for: LookFor, why: str) -> None:
    """A pattern without a step, a framework without what it needs, or with what it has no use for."""
    with pytest.raises(CheckpointLocationWrong) as refused:
        check(look_for)
    assert why in refused.value.message
    assert refused.value.what_next
