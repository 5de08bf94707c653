"""The sections about people: where they are told, when, who may do what, and what is done when nobody answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from costguard.access.rules import Access, Protection
from costguard.model.money import Money
from costguard.model.reminder import Enforcement, QuietRule, ReminderRule, RestRule, Team
from costguard.settings import values_reminders as values
from costguard.settings.fields import (
    AddressOrDomain,
    Channel,
    Duration,
    DurationOrNever,
    LabelKey,
    Listed,
    LowerAddress,
    ProjectId,
    Section,
    between,
)

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_TEN_MINUTES = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Digests:
    """When digests are sent, on the clocks of `time_zone`. None: never."""

    daily: time | None
    weekly: time | None
    weekday: int  # of the weekly one; 0 is Monday
    time_zone: str


class Slack(Section):
    """The three secrets come from the environment, never from the file."""

    channel: Channel
    endpoint: Annotated[str, AfterValidator(values.slack_endpoint)] | None = None  # None: Slack's own
    socket_mode: bool = False
    url: Annotated[str, AfterValidator(values.url)] | None = None
    budget_channel: Channel = Field(default_factory=lambda given: given.get("channel", ""))
    token: SecretStr = Field(default=SecretStr(""), exclude=True)  # never empty: `references` asks for it
    signing_secret: SecretStr | None = Field(default=None, exclude=True)
    app_token: SecretStr | None = Field(default=None, exclude=True)

    @property
    def hears_buttons(self) -> bool:
        """Whether what people press can reach Costguard, as far as the settings tell."""
        return self.socket_mode or self.signing_secret is not None


class Reminders(Section):
    time_zone: Annotated[str, AfterValidator(values.time_zone)] = "UTC"
    quiet_hours: Annotated[tuple[time, time], BeforeValidator(values.quiet_hours)] = (time(20), time(8))
    quiet_days: Annotated[frozenset[int], BeforeValidator(values.weekdays)] = frozenset({5, 6})
    quiet_unless_above: Annotated[Money | None, BeforeValidator(values.dollars_or_never)] = Money.of(20)
    storage_after: Annotated[DurationOrNever, between(_TEN_MINUTES, timedelta(weeks=52))] = timedelta(days=3)
    storage_every: Annotated[Duration, between(_HOUR, timedelta(weeks=52))] = timedelta(weeks=1)
    contact: LowerAddress | None = None
    daily_digest: Annotated[time | None, BeforeValidator(values.daily)] = time(9)
    weekly_digest: Annotated[tuple[int, time] | None, BeforeValidator(values.weekly)] = (0, time(9))

    @property
    def quiet(self) -> QuietRule:
        return QuietRule(*self.quiet_hours, self.quiet_days, self.quiet_unless_above)

    @property
    def rest(self) -> RestRule:
        return RestRule(self.storage_after, self.storage_every)

    @property
    def digests(self) -> Digests:
        weekday, weekly = self.weekly_digest or (0, None)
        return Digests(self.daily_digest, weekly, weekday, self.time_zone)


class EnforcementSection(Section):
    shadow: bool = True
    protect_label: LabelKey = "costguard-protect"
    protect_projects: Annotated[tuple[ProjectId, ...], Listed] = ()
    protect_names: Annotated[tuple[Annotated[str, AfterValidator(values.name_pattern)], ...], Listed] = ()

    @property
    def protection(self) -> Protection:
        return Protection(self.protect_label, frozenset(self.protect_projects), self.protect_names)


class AccessSection(Section):
    viewers: Annotated[tuple[AddressOrDomain, ...], Listed] = ()
    operators: Annotated[tuple[AddressOrDomain, ...], Listed] = ()
    admins: Annotated[tuple[AddressOrDomain, ...], Listed] = ()

    @property
    def access(self) -> Access:
        return Access(frozenset(self.viewers), frozenset(self.operators), frozenset(self.admins))


class TeamSection(Section):
    members: Annotated[tuple[LowerAddress, ...], Listed] = ()
    operators: Annotated[tuple[LowerAddress, ...], Listed] = ()
    projects: Annotated[tuple[ProjectId, ...], Listed] = ()  # watched ones, which `references` checks
    channel: Channel | None = None

    def team(self, name: str) -> Team:
        people = frozenset(self.members), frozenset(self.operators)
        return Team(name, *people, frozenset(self.projects), self.channel or "")


class PresetReminders(Section):
    """The keys of a preset that say what follows its limit."""

    remind_every: Annotated[Duration, between(_TEN_MINUTES, 7 * _DAY)] = timedelta(hours=4)
    keeps: Annotated[int, Field(ge=0, le=100)] = 3
    longest_keep: Annotated[Duration, between(_HOUR, 30 * _DAY)] = timedelta(days=3)
    when_unanswered: Literal["remind", "stop"] = "remind"
    stop_after: Annotated[int, Field(ge=1, le=20)] = 3
    grace: Annotated[Duration, between(_TEN_MINUTES, 7 * _DAY)] = timedelta(hours=1)

    @property
    def reminder_rule(self) -> ReminderRule:
        return ReminderRule(
            every=self.remind_every,
            keeps=self.keeps,
            longest_keep=self.longest_keep,
            enforcement=Enforcement(self.when_unanswered),
            stop_after=self.stop_after,
            grace=self.grace,
        )
