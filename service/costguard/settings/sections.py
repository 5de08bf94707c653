"""The sections of the settings file, as strict models: no unknown key, no guessed type, nothing changed later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, SecretStr, model_validator

from costguard.access.rules import Rules, by_name
from costguard.ledger.owner import OwnerRules
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Team
from costguard.model.utilisation import IdleRule
from costguard.model.webhook import Webhook
from costguard.settings import values, values_jobs
from costguard.settings.fields import (
    Duration,
    DurationOrNever,
    Endpoint,
    GpuType,
    LabelKey,
    LabelValue,
    Listed,
    LowerAddress,
    MailAddress,
    Name,
    Network,
    Percent,
    Percents,
    ProjectId,
    Section,
    between,
)
from costguard.settings.sections_checkpoints import Checkpoints
from costguard.settings.sections_jobs import Jobs, LaunchSection
from costguard.settings.sections_reminders import (
    AccessSection,
    Digests,
    EnforcementSection,
    PresetReminders,
    Reminders,
    Slack,
    TeamSection,
)
from costguard.settings.sections_sign_in import SignIn
from costguard.settings.sections_webhooks import WebhookSection


def _secret_url(value: object) -> object:
    return SecretStr(values.database_url(value)) if isinstance(value, str) else value


def _distinct(projects: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({project for project in projects if projects.count(project) > 1})
    if twice:
        raise ValueError(f"each project once ({', '.join(twice)} stands there more often)")
    return projects


def _scope(value: object) -> object:
    return {} if value == "everything" else value


def _label_keys(labels: Mapping[str, str]) -> Mapping[str, str]:
    for key in labels:
        values.label_key(key)
    return labels


class Watch(Section):
    projects: Annotated[tuple[ProjectId, ...], Listed, AfterValidator(_distinct), Field(min_length=1)]
    vms_without_gpu: Literal["watch", "ignore"] = "watch"
    every: Annotated[Duration, between(timedelta(seconds=10), timedelta(hours=1))] = timedelta(minutes=1)
    parallel: Annotated[int, Field(ge=1, le=64)] = 8


class Database(Section):
    url: Annotated[SecretStr, BeforeValidator(_secret_url)] = SecretStr("sqlite:///costguard.db")


class Server(Section):
    listen: Annotated[str, AfterValidator(values.listen)] = "127.0.0.1:8765"
    requests_per_minute: Annotated[int, Field(ge=12, le=1_000_000)] = 600  # of one token or session
    trusted_proxies: Annotated[tuple[Network, ...], Listed] = ()
    proxy_header: Literal["x-forwarded", "forwarded"] = "x-forwarded"

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """0 lets the system choose a free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def is_loopback(self) -> bool:
        return values.is_loopback(self.host)


class Compute(Section):
    endpoint: Endpoint | None = None  # None: Google's, with credentials


class Prices(Section):
    enabled: bool = True
    endpoint: Endpoint | None = None
    refresh_every: Annotated[Duration, between(timedelta(minutes=1), timedelta(days=30))] = timedelta(days=1)


class Idle(Section):
    enabled: bool = True
    every: Annotated[Duration, between(timedelta(seconds=10), timedelta(hours=1))] = timedelta(minutes=5)


class Owners(Section):
    label: LabelKey = "owner"
    domain: Annotated[str, AfterValidator(values.domain)] | None = None
    map: Mapping[LabelValue, MailAddress] = Field(default_factory=dict)

    @property
    def rules(self) -> OwnerRules:
        return OwnerRules(self.label, self.domain, dict(self.map))


class PresetMatch(Section):
    labels: Annotated[Mapping[str, LabelValue], AfterValidator(_label_keys)] = Field(default_factory=dict)
    gpu_types: Annotated[tuple[GpuType, ...], Listed] = ()
    gpu_count_min: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_count_max: Annotated[int, Field(ge=0, le=64)] | None = None

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.gpu_count_max is not None and self.gpu_count_min > self.gpu_count_max:
            raise ValueError(
                f"gpu_count_min ({self.gpu_count_min}) no larger than gpu_count_max ({self.gpu_count_max})"
            )
        return self


class PresetIdle(Section):
    """A window of None: it is not asked whether VMs of this preset are idle."""

    gpu_below: Percent = 5
    cpu_below: Percent = 5
    window: Annotated[DurationOrNever, between(timedelta(minutes=30), timedelta(days=1))] = timedelta(hours=1)

    @property
    def rule(self) -> IdleRule | None:
        return None if self.window is None else IdleRule(100 * self.gpu_below, 100 * self.cpu_below, self.window)


class PresetSection(PresetReminders):
    description: str = ""
    limit: DurationOrNever
    match: PresetMatch = PresetMatch()
    idle: PresetIdle = PresetIdle()
    launch: LaunchSection | None = None

    def preset(self, name: str) -> Preset:
        match = Match(
            labels=dict(self.match.labels),
            gpu_types=frozenset(self.match.gpu_types),
            gpu_count_min=self.match.gpu_count_min,
            gpu_count_max=self.match.gpu_count_max,
        )
        preset = Preset(name, match, self.limit, self.description, self.idle.rule, self.reminder_rule)
        if self.launch is None:
            return preset
        return replace(
            preset,
            launch=self.launch.recipe(self.limit),
            dev_image=self.launch.dev_image or "",
            may_override=self.launch.overrides,
        )


class BudgetScope(Section):
    project: str | None = None  # these three must be known, which `references` checks
    preset: str | None = None
    team: str | None = None
    owner: MailAddress | None = None
    job: Annotated[str, AfterValidator(values_jobs.job_id)] | None = None


class BudgetSection(Section):
    scope: Annotated[BudgetScope, BeforeValidator(_scope)] = BudgetScope()
    limit: Annotated[Money, BeforeValidator(values.dollars)]
    period: Literal["day", "week", "month"]
    thresholds: Percents = (50, 80, 100)
    forecast_thresholds: Percents = (100,)
    at_limit: Literal["tell", "refuse", "stop-spot"] = "tell"
    contact: LowerAddress | None = None

    def budget(self, name: str) -> Budget:
        return Budget(
            name=name,
            scope=Scope(**self.scope.model_dump()),
            limit=self.limit,
            period=Period(self.period),
            thresholds=self.thresholds,
            forecast_thresholds=self.forecast_thresholds,
            contact=self.contact or "",
            at_limit=AtLimit(self.at_limit),
        )


class Log(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(Section):
    """Everything that Costguard was told. Secrets never come from the file."""

    watch: Watch
    database: Database = Database()
    server: Server = Server()
    compute: Compute = Compute()
    prices: Prices = Prices()
    idle: Idle = Idle()
    owners: Owners = Owners()
    slack: Slack | None = None
    reminders: Reminders = Reminders()
    enforcement: EnforcementSection = EnforcementSection()
    access: AccessSection = AccessSection()
    sign_in: SignIn = SignIn()
    checkpoints: Checkpoints = Checkpoints()
    jobs: Jobs = Jobs()
    teams: Mapping[Name, TeamSection] = Field(default_factory=dict)
    presets: Mapping[Name, PresetSection]
    budgets: Mapping[Name, BudgetSection] = Field(default_factory=dict)
    webhooks: Mapping[Name, WebhookSection] = Field(default_factory=dict)
    log: Log = Log()
    token: SecretStr | None = Field(default=None, exclude=True)
    _given: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From the file's tables with the secrets in their places. Raises pydantic's ValidationError."""
        made = cls.model_validate(given)
        made._given = given
        return made

    @property
    def given(self) -> Mapping[str, Any]:
        """What they were made from, secrets included: for another process of the same guard."""
        return self._given

    def preset_list(self) -> tuple[Preset, ...]:
        """In the order in which they are tried; `other`, which is not tried, comes last."""
        names = [name for name in self.presets if name != OTHER]
        return tuple(self.presets[name].preset(name) for name in [*names, OTHER])

    def budget_list(self) -> tuple[Budget, ...]:
        return tuple(section.budget(name) for name, section in self.budgets.items())

    def webhook_list(self) -> tuple[Webhook, ...]:
        return tuple(section.webhook(name) for name, section in self.webhooks.items())

    def rules(self) -> Rules:
        """All that decisions go by."""
        return Rules(
            presets=by_name(self.preset_list()),
            quiet=self.reminders.quiet,
            rest=self.reminders.rest,
            time_zone=self.reminders.time_zone,
            channel=self.slack.channel if self.slack is not None else "",
            contact=self.reminders.contact or "",
            owner_label=self.owners.label,
            teams=self.team_list(),
            budgets=self.budget_list(),
            access=self.access.access,
            protection=self.enforcement.protection,
            is_shadow=self.enforcement.shadow,
            jobs=self.jobs.rules,
        )

    def team_list(self) -> tuple[Team, ...]:
        return tuple(section.team(name) for name, section in self.teams.items())

    @property
    def digests(self) -> Digests:
        return self.reminders.digests
