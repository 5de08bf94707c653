"""No rule may stop a protected VM."""

from __future__ import annotations

import pytest

from costguard.access.rules import Protection
from costguard.reminders.enforcement import protected_because

RULE = Protection(projects=frozenset({"acme-prod"}), names=("*-prod", "bastion"))


@pytest.mark.parametrize(
    ("name", "project", "label", "expected"),
    [
        ("vm", "p", None, ""),
        ("vm", "p", "false", ""),
        ("vm", "p", "False", ""),
        ("vm", "p", "true", "label costguard-protect"),
        ("vm", "p", "", "label costguard-protect"),
        ("vm", "p", "nightly-eval", "label costguard-protect: nightly-eval"),
        ("vm", "acme-prod", None, "project acme-prod"),
        ("api-prod", "p", None, "name *-prod"),
        ("bastion", "p", "false", "name bastion"),
        ("bastion-2", "p", None, ""),
        ("API-PROD", "p", None, ""),
    ],
)
def test_what_protects(name: str, project: str, label: str | None, expected: str) -> None:
    """A VM is protected by its label unless that says false, its project, or its name; and the reason says which."""
    labels = {} if label is None else {"costguard-protect": label}
    assert protected_because(name, project, labels, RULE) == expected
