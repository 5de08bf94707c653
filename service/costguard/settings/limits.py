"""[limits]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.money import Money
from costguard.settings.problems import Raw, SettingProblem, check_known, check_watched, table
from costguard.settings.values import EVERYTHING, LimitScope, Section, dollars

_RESOURCES = ("vms", "gpus", "dollars_per_hour")
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class LimitSection(Section):
    scope: Annotated[LimitScope, EVERYTHING] = LimitScope()
    for_each: Literal["owner", "team", "project", "preset"] | None = None
    vms: Count | None = None
    gpus: Count | None = None
    dollars_per_hour: Annotated[Money, BeforeValidator(dollars)] | None = None
    counts: Literal["all", "jobs"] = "all"

    def limit(self, name: str) -> FleetLimit:
        return FleetLimit(
            name=name,
            scope=Scope(**dict(self.scope)),
            for_each=LimitPart(self.for_each) if self.for_each is not None else None,
            vms=self.vms,
            gpus=self.gpus,
            dollars_per_hour=self.dollars_per_hour,
            counts_others=self.counts == "all",
        )


def check(raw: Raw, shipped: tuple[str, ...]) -> Iterator[SettingProblem]:
    names_of = {
        "preset": ("a preset", [*shipped, *(name for name in table(raw, "presets") if name not in shipped)]),
        "team": ("a team", list(table(raw, "teams"))),
    }
    sections = table(raw, "limits")
    for name in sections:
        section = table(sections, name)
        scope = table(section, "scope")
        yield from check_watched(("limits", name, "scope", "project"), scope.get("project"), raw)
        for part, (what, names) in names_of.items():
            yield from check_known(("limits", name, "scope", part), scope.get(part), names, what)
        if not any(resource in section for resource in _RESOURCES):
            expected = "at least one of vms, gpus and dollars_per_hour: the most that may be in use at once"
            yield SettingProblem(("limits", name), f"missing; expected {expected}")
