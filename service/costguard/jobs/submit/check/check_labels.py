"""Checks the labels that a job asks for on its VMs.

Keys have 1 to 63 characters, values up to 63: lower-case letters, digits, underscores and hyphens, and a key begins
with a letter; a resource has 64 labels at most (docs.cloud.google.com/compute/docs/labeling-resources). Letters of
other alphabets, which Google allows too, are not: presets and filters do not take them either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from costguard.jobs.submit.submission import JobRefusal, shown
from costguard.keepers.reading import keeper_of
from costguard.model.words import list_text

MOST_LABELS = 16  # of one job: presets may have 32, and Costguard adds its own
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_VALUE = re.compile(r"[a-z0-9_-]{0,63}", re.ASCII)
_RESERVED = ("costguard-", "goog")  # Costguard's own, and those that Google's services set


def label_problems(labels: Mapping[str, str], of_preset: Mapping[str, str], owner_label: str) -> Iterator[JobRefusal]:
    """Finds labels that Google does not take, and those that would say what they may not.

    A label of the preset stays as it is, since budgets may hold jobs by it.
    """
    if len(labels) > MOST_LABELS:
        yield JobRefusal("labels", f"A job has {MOST_LABELS} labels at most: leave some out.")
        return
    for key, value in labels.items():
        if not _KEY.fullmatch(key):
            message = (
                f"{shown(key)} is no label's key: use lower-case letters, digits, _ and -, a letter first, 63 at most."
            )
            yield JobRefusal("labels", message)
        elif not _VALUE.fullmatch(value):
            yield JobRefusal(
                f"labels.{key}", f"Google does not take this value: write {label_value(value) or 'another'}."
            )
        elif key.startswith(_RESERVED) or key == owner_label:
            whose = (
                "the label that names a VM's owner" if key == owner_label else "a label of Costguard's or Google's own"
            )
            yield JobRefusal(f"labels.{key}", f"This is {whose}: choose another key.")
        elif of_preset.get(key, value) != value:
            yield JobRefusal(f"labels.{key}", f"Its preset sets this to {shown(of_preset[key])}: leave it out.")
    if (keeper := keeper_of(labels, {})) is not None:
        named = list_text([key for key in labels if key in keeper.evidence])
        yield JobRefusal("labels", f"{named} marks VMs that something else keeps: leave it out.")


def label_value(text: str) -> str:
    """Returns a value that Google takes and that is as near to the text as can be, such as the id of a run."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]
