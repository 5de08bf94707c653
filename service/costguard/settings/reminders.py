"""[reminders], [enforcement] and [teams]: when reminders are sent, and what rules never stop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator

from costguard.access.rules import Protection
from costguard.model.keeper import STOPPED_THROUGH, KeeperKind
from costguard.model.money import Money
from costguard.model.reminder import QuietRule, StorageRule, Team
from costguard.model.words import list_text
from costguard.settings.problems import Raw, SettingProblem, check_watched, did_you_mean, table
from costguard.settings.values import (
    Channel,
    Duration,
    DurationOrNever,
    LabelKey,
    Listed,
    LowerAddress,
    ProjectId,
    Section,
    between,
    dollars,
    or_never,
)

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_PATTERN = re.compile(r"[a-z0-9*?!\[\]-]+")
_LONGEST_PATTERN, _MOST_STARS = 128, 8  # a VM's name has 63 characters at most


def time_of_day(value: object) -> time:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time of day in quotes, on a 24-hour clock, such as "09:00" or "17:30"')
    return time(int(match[1]), int(match[2]))


def weekly(value: object) -> tuple[int, time] | None:
    """The weekday, 0 for Monday, and its time."""
    if value == "never":
        return None
    day, _, at = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if day not in WEEKDAYS or not _TIME.fullmatch(at):
        raise ValueError(f'a day and a time on it, such as "mon 09:00", or "never" (days: {", ".join(WEEKDAYS)})')
    return WEEKDAYS.index(day), time_of_day(at)


def two_times(value: object) -> tuple[time, time]:
    """Start and end, also across midnight; the same time twice where never."""
    if value == "never":
        return time(0), time(0)
    starts, _, ends = value.partition("-") if isinstance(value, str) else ("", "", "")
    if not _TIME.fullmatch(starts) or not _TIME.fullmatch(ends):
        raise ValueError('a start and an end, such as "20:00-08:00", or "never"')
    if starts == ends:
        raise ValueError('two different times, such as "20:00-08:00", or "never"')
    return time_of_day(starts), time_of_day(ends)


def weekdays(value: object) -> frozenset[int]:
    if not isinstance(value, list | tuple) or not all(day in WEEKDAYS for day in value):
        raise ValueError(f'a list of days, such as ["sat", "sun"] or [] (days: {", ".join(WEEKDAYS)})')
    return frozenset(WEEKDAYS.index(day) for day in value)


def time_zone(value: str) -> str:
    """A time zone that this computer has data for."""
    try:
        ZoneInfo(value)
    except (ValueError, KeyError, OSError):  # an OSError where the name is that of a folder, such as "America"
        hint = did_you_mean(value, available_timezones())
        raise ValueError(f'a time zone of the IANA database, such as "UTC" or "Europe/Vienna"{hint}') from None
    return value


def name_pattern(value: str) -> str:
    if not _PATTERN.fullmatch(value):
        raise ValueError(
            'a VM\'s name, or a pattern for names such as "*-prod": small letters, digits, hyphens, * ? [ ]'
        )
    if len(value) > _LONGEST_PATTERN or value.count("*") > _MOST_STARS:
        raise ValueError(f"a pattern of at most {_LONGEST_PATTERN} characters with at most {_MOST_STARS} stars")
    return value


def stopped_through(value: object) -> KeeperKind:
    kind = next((kind for kind in STOPPED_THROUGH if kind.value == value), None)
    if kind is None:
        names = list_text([f'"{kind.value}"' for kind in STOPPED_THROUGH])
        raise ValueError(f"a keeper that has a stop of its own: {names}")
    return kind


TimeZone = Annotated[str, AfterValidator(time_zone)]


@dataclass(frozen=True, slots=True)
class Digests:
    """When digests are sent, in `time_zone`; None where never."""

    daily: time | None
    weekly: time | None
    weekday: int  # of the weekly one; 0 is Monday
    time_zone: str


class RemindersSection(Section):
    time_zone: TimeZone = "UTC"
    quiet_hours: Annotated[tuple[time, time], BeforeValidator(two_times)] = (time(20), time(8))
    quiet_days: Annotated[frozenset[int], BeforeValidator(weekdays)] = frozenset({5, 6})
    quiet_unless_above: Annotated[Money | None, BeforeValidator(or_never(dollars))] = Money.of(20)
    storage_after: Annotated[DurationOrNever, between(timedelta(minutes=10), timedelta(weeks=52))] = timedelta(days=3)
    storage_every: Annotated[Duration, between(timedelta(hours=1), timedelta(weeks=52))] = timedelta(weeks=1)
    contact: LowerAddress | None = None
    daily_digest: Annotated[time | None, BeforeValidator(or_never(time_of_day))] = time(9)
    weekly_digest: Annotated[tuple[int, time] | None, BeforeValidator(weekly)] = (0, time(9))

    @property
    def quiet(self) -> QuietRule:
        return QuietRule(*self.quiet_hours, self.quiet_days, self.quiet_unless_above)

    @property
    def rest(self) -> StorageRule:
        return StorageRule(self.storage_after, self.storage_every)

    @property
    def digests(self) -> Digests:
        weekday, weekly = self.weekly_digest or (0, None)
        return Digests(self.daily_digest, weekly, weekday, self.time_zone)


class EnforcementSection(Section):
    shadow: bool = True
    protect_label: LabelKey = "costguard-protect"
    protect_projects: Annotated[tuple[ProjectId, ...], Listed] = ()
    protect_names: Annotated[tuple[Annotated[str, AfterValidator(name_pattern)], ...], Listed] = ()
    stop_through: Annotated[tuple[Annotated[KeeperKind, BeforeValidator(stopped_through)], ...], Listed] = ()

    @property
    def protection(self) -> Protection:
        return Protection(self.protect_label, frozenset(self.protect_projects), self.protect_names)


class TeamSection(Section):
    members: Annotated[tuple[LowerAddress, ...], Listed] = ()
    operators: Annotated[tuple[LowerAddress, ...], Listed] = ()
    projects: Annotated[tuple[ProjectId, ...], Listed] = ()  # watched ones: see `check`
    channel: Channel | None = None

    def team(self, name: str) -> Team:
        people = frozenset(self.members), frozenset(self.operators)
        return Team(name, *people, frozenset(self.projects), self.channel or "")


def check(raw: Raw) -> Iterator[SettingProblem]:
    teams = table(raw, "teams")
    named: dict[tuple[str, ...], object] = {
        ("teams", name, "projects"): table(teams, name).get("projects") for name in teams
    }
    webhooks = table(raw, "webhooks")
    named.update({("webhooks", name, "projects"): table(webhooks, name).get("projects") for name in webhooks})
    named["enforcement", "protect_projects"] = table(raw, "enforcement").get("protect_projects")
    for path, projects in named.items():
        for index, project in enumerate(projects if isinstance(projects, list) else []):
            yield from check_watched((*path, index), project, raw)
