"""The licences of installed packages, by their own metadata, against those that are allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

_LIST = Path(__file__).with_name("licences.toml")
_CLASSIFIER = "License :: "


@dataclass(frozen=True, slots=True)
class Policy:
    """`written` has names of licences that are no SPDX expressions."""

    allowed: Mapping[str, str]
    written: Mapping[str, str]

    def allows(self, expression: str) -> bool:
        """Says whether a licence is allowed: one of `A OR B` is enough; of `A AND B` both are needed."""
        return bool(expression) and all(
            any(self._is_allowed(choice) for choice in re.split(r"\s+OR\s+", part))
            for part in re.split(r"\s+AND\s+", expression)
        )

    def _is_allowed(self, name: str) -> bool:
        return self.written.get(name, name.strip("() ")) in self.allowed


def policy() -> Policy:
    lists = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    return Policy(lists["allowed"], lists["written"])


def expression_of(fields: Mapping[str, list[str]]) -> str:
    """The licence expression (PEP 639), else the short licence, else all classifiers together; "" where none says."""
    for name in ("License-Expression", "License"):
        for text in fields.get(name, []):
            if text.strip() and "\n" not in text.strip() and text.strip() != "UNKNOWN":
                return text.strip()
    named = [text.rpartition(" :: ")[2] for text in fields.get("Classifier", []) if text.startswith(_CLASSIFIER)]
    return " AND ".join(sorted(set(named) - {"OSI Approved"}))


def refused(packages: Mapping[str, str], rules: Policy) -> Iterator[str]:
    """A sentence for each installed package whose licence is not allowed, or not known."""
    for name in sorted(packages):
        try:
            read = metadata(name)
        except PackageNotFoundError:
            continue  # for another system than this one
        fields = {field: read.get_all(field) or [] for field in ("License-Expression", "License", "Classifier")}
        expression = expression_of(fields)
        if not rules.allows(expression):
            licence = expression or "not named"
            yield f"{name} {packages[name]}: its licence is {licence}, which {_LIST.name} does not allow."
