"""[budgets]."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from costguard.model.budget import AtLimit, Budget, LabelFilter, Period, Scope
from costguard.model.money import Money
from costguard.settings.problems import (
    Raw,
    SettingProblem,
    check_known,
    check_watched,
    did_you_mean,
    table,
    unexpected,
)
from costguard.settings.values import EVERYTHING, LimitScope, LowerAddress, Section, dollars, matching

_OWNER_LABEL = "owner"  # unless [owners] names another
_PERCENT = re.compile(r"([0-9]{1,4})%")


def percents(value: object) -> tuple[int, ...]:
    """Shares of a limit, the lowest first. Percents in quotes: a bare 0.8 is a float, and 80 could mean either."""
    matches = [
        _PERCENT.fullmatch(item) if isinstance(item, str) else None
        for item in (value if isinstance(value, list | tuple) else ())
    ]
    numbers = [int(match[1]) for match in matches if match is not None]
    if not isinstance(value, list | tuple) or len(numbers) < len(matches) or len(set(numbers)) < len(numbers):
        raise ValueError('different whole percents of the limit, in quotes: ["50%", "80%", "100%"]')
    if any(not 1 <= number <= 1000 for number in numbers):
        raise ValueError("percents from 1% to 1000%")
    return tuple(sorted(numbers))


JobId = Annotated[str, AfterValidator(matching(r"[a-z][a-z0-9]{3,31}", "a job's id, such as j7k2m9q4"))]
Percents = Annotated[tuple[int, ...], BeforeValidator(percents)]


def _label(value: object) -> object:
    return value if isinstance(value, LabelFilter) else LabelFilter.parse(value if isinstance(value, str) else "")


class BudgetScope(LimitScope):
    job: JobId | None = None
    label: Annotated[LabelFilter, BeforeValidator(_label)] | None = None  # its key stands in [spend] labels


class BudgetSection(Section):
    scope: Annotated[BudgetScope, EVERYTHING] = BudgetScope()
    limit: Annotated[Money, BeforeValidator(dollars)]
    period: Literal["day", "week", "month"]
    thresholds: Percents = (50, 80, 100)
    forecast_thresholds: Percents = (100,)
    at_limit: Literal["tell", "refuse", "stop-spot"] = "tell"
    contact: LowerAddress | None = None

    def budget(self, name: str) -> Budget:
        return Budget(
            name=name,
            scope=Scope(**dict(self.scope)),
            limit=self.limit,
            period=Period(self.period),
            thresholds=self.thresholds,
            forecast_thresholds=self.forecast_thresholds,
            contact=self.contact or "",
            at_limit=AtLimit(self.at_limit),
        )


def check(raw: Raw, shipped: tuple[str, ...]) -> Iterator[SettingProblem]:
    names_of = {
        "preset": ("a preset", [*shipped, *(name for name in table(raw, "presets") if name not in shipped)]),
        "team": ("a team", list(table(raw, "teams"))),
    }
    sections = table(raw, "budgets")
    for name in sections:
        scope = table(table(sections, name), "scope")
        yield from check_watched(("budgets", name, "scope", "project"), scope.get("project"), raw)
        for part, (what, names) in names_of.items():
            yield from check_known(("budgets", name, "scope", part), scope.get(part), names, what)
        yield from _check_label(raw, name, scope.get("label"), table(sections, name).get("at_limit"))


def _check_label(raw: Raw, name: str, given: object, at_limit: object) -> Iterator[SettingProblem]:
    """The label is added up day by day; and what is held back is known before a VM is launched."""
    try:
        label = LabelFilter.parse(given).label if isinstance(given, str) else ""
    except ValueError:
        return  # reported with the value
    named = table(raw, "spend").get("labels")
    labels = [key for key in named if isinstance(key, str)] if isinstance(named, list) else []
    path = ("budgets", name, "scope", "label")
    if label and label not in labels:
        names = ", ".join(labels) or "none is named"
        yield unexpected(path, given, f"a label named in [spend] labels: {names}{did_you_mean(label, labels)}")
    elif label and label == table(raw, "owners").get("label", _OWNER_LABEL) and at_limit in {"refuse", "stop-spot"}:
        yield unexpected(path, given, "scope.owner: the label that names owners holds no job back")
