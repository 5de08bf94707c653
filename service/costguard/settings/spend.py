"""[spend]: the VM labels by which spend is added up, filtered and budgeted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from costguard.access.rules import WORKFLOW_LABELS
from costguard.settings.values import LabelKey, Listed, Section

MOST_LABELS = 8  # each is rolled up by its own values, day by day
_GOOGLES_OWN = "goog-"  # set and changed by Google's services: their changes are not recorded


def _few_and_different(labels: Sequence[str]) -> tuple[str, ...]:
    if len(set(labels)) < len(labels) or len(labels) > MOST_LABELS:
        raise ValueError(f'at most {MOST_LABELS} different label keys, such as ["experiment", "cost-center"]')
    if any(label.startswith(_GOOGLES_OWN) for label in labels):
        raise ValueError(f"labels that do not begin with {_GOOGLES_OWN}, which Google's services change by themselves")
    return tuple(labels)


class SpendSection(Section):
    """The labels whose values are added up day by day, as presets are. Other labels are read from charges, slower.

    `workflow_labels` are those whose value names one execution of a workflow.
    """

    labels: Annotated[tuple[LabelKey, ...], Listed, AfterValidator(_few_and_different)] = ()
    workflow_labels: Annotated[tuple[LabelKey, ...], Listed, AfterValidator(_few_and_different)] = WORKFLOW_LABELS
