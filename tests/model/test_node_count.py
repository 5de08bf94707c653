"""The number of a job's VMs as people give it: a number, or a range."""

from __future__ import annotations

import pytest

from costguard.jobs.submit.check.options import submission_of
from costguard.model.job import JobKind, JobSpec
from costguard.model.options.node_count import NodeRange, node_count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4", 4),
        (4, 4),
        ("2..8", NodeRange(2, 8)),
        ("2 .. 8", NodeRange(2, 8)),
        ("4..4", 4),
        ("1..64", NodeRange(1, 64)),
    ],
)
def test_a_number_or_a_range_is_read(text: int | str, count: object) -> None:
    """A range of one number is that number."""
    assert node_count(text) == count


@pytest.mark.parametrize("text", ["0", "65", "8..2", "0..4", "2..65", "2-8", "2...8", "..8", "2..", "", "a", "-2", "²"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    """The error names both forms."""
    with pytest.raises(ValueError, match=r"such as 4, or a range such as 2\.\.8"):
        node_count(text)


def test_a_spec_keeps_the_most_and_the_least() -> None:
    """A spec that was stored before there were ranges has one number."""
    spec = submission_of({"preset": "t4", "nodes": NodeRange(2, 8)}, "ana@example.com").spec
    assert (spec.nodes, spec.least_nodes, spec.is_elastic, str(spec.vm_count)) == (8, 2, True, "2..8")
    fixed = JobSpec(JobKind.TRAINING, "t4", "p", "ana@example.com", nodes=4)
    assert (fixed.fewest, fixed.is_elastic, fixed.vm_count) == (4, False, 4)
