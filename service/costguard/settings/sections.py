"""All settings, and the keys that the settings file may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from costguard.access.rules import Rules, by_name
from costguard.model.budget import Budget, FleetLimit
from costguard.model.delivery.webhook import Webhook
from costguard.model.preset import OTHER, Preset
from costguard.model.reminder import Team
from costguard.settings import access, budgets, fleet, limits, presets, reminders, server, slack, trackers, webhooks
from costguard.settings.access import AccessSection, SignInSection
from costguard.settings.bill import BillSection
from costguard.settings.budgets import BudgetSection
from costguard.settings.feed import FeedSection
from costguard.settings.fleet import ComputeSection, IdleSection, OwnersSection, PricesSection, WatchSection
from costguard.settings.history import HistorySection
from costguard.settings.jobs import CheckpointsSection, JobsSection
from costguard.settings.limits import LimitSection
from costguard.settings.presets import PresetSection
from costguard.settings.problems import Raw, SettingProblem
from costguard.settings.reminders import Digests, EnforcementSection, RemindersSection, TeamSection
from costguard.settings.retention import RetentionSection
from costguard.settings.server import DatabaseSection, LogSection, ServerSection
from costguard.settings.slack import SlackSection
from costguard.settings.spend import SpendSection
from costguard.settings.stage import StageSection
from costguard.settings.trackers import TrackersSection
from costguard.settings.values import Name, Section
from costguard.settings.webhooks import WebhookSection

type_of_model = type[BaseModel]
ANY_NAME = "NAME"


class Settings(Section):
    """All sections. Secrets never come from the file."""

    watch: WatchSection
    database: DatabaseSection = DatabaseSection()
    server: ServerSection = ServerSection()
    compute: ComputeSection = ComputeSection()
    prices: PricesSection = PricesSection()
    bill: BillSection = BillSection()
    feed: FeedSection = FeedSection()
    idle: IdleSection = IdleSection()
    owners: OwnersSection = OwnersSection()
    slack: SlackSection | None = None
    reminders: RemindersSection = RemindersSection()
    enforcement: EnforcementSection = EnforcementSection()
    access: AccessSection = AccessSection()
    sign_in: SignInSection = SignInSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    jobs: JobsSection = JobsSection()
    stage: StageSection = StageSection()
    teams: Mapping[Name, TeamSection] = Field(default_factory=dict)
    presets: Mapping[Name, PresetSection]
    spend: SpendSection = SpendSection()
    budgets: Mapping[Name, BudgetSection] = Field(default_factory=dict)
    limits: Mapping[Name, LimitSection] = Field(default_factory=dict)
    webhooks: Mapping[Name, WebhookSection] = Field(default_factory=dict)
    trackers: TrackersSection = TrackersSection()
    retention: RetentionSection = RetentionSection()
    history: HistorySection = HistorySection()
    log: LogSection = LogSection()
    token: SecretStr | None = Field(default=None, exclude=True)
    _given: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Makes settings from the file's tables with the secrets in their places. Raises pydantic's ValidationError."""
        made = cls.model_validate(given)
        made._given = given
        return made

    @property
    def given(self) -> Mapping[str, Any]:
        """The tables they were made from, secrets included: for the web process."""
        return self._given

    def preset_list(self) -> tuple[Preset, ...]:
        """Returns the presets in the order in which they are tried; `other`, which matches the rest, comes last."""
        names = [name for name in self.presets if name != OTHER]
        return tuple(self.presets[name].preset(name) for name in [*names, OTHER])

    def budget_list(self) -> tuple[Budget, ...]:
        return tuple(section.budget(name) for name, section in self.budgets.items())

    def limit_list(self) -> tuple[FleetLimit, ...]:
        return tuple(section.limit(name) for name, section in self.limits.items())

    def webhook_list(self) -> tuple[Webhook, ...]:
        return tuple(section.webhook(name) for name, section in self.webhooks.items())

    def rules(self) -> Rules:
        """The rules that decisions follow."""
        team_operators = frozenset().union(*(team.operators for team in self.team_list()))
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
            fleet_limits=self.limit_list(),
            spend_labels=self.spend.labels,
            workflow_labels=self.spend.workflow_labels,
            access=replace(self.access.access, team_operators=team_operators),
            protection=self.enforcement.protection,
            stop_through=frozenset(self.enforcement.stop_through),
            is_shadow=self.enforcement.shadow,
            jobs=replace(self.jobs.rules, trackers=self.trackers.names, stage=self.stage.rules),
        )

    def team_list(self) -> tuple[Team, ...]:
        return tuple(section.team(name) for name, section in self.teams.items())

    @property
    def digests(self) -> Digests:
        return self.reminders.digests


class AccessSettings(Section):
    """The settings that links and tokens are made from on the server: the database, who has a role, and addresses."""

    database: DatabaseSection = DatabaseSection()
    server: ServerSection = ServerSection()
    access: AccessSection = AccessSection()
    sign_in: SignInSection = SignInSection()
    reminders: RemindersSection = RemindersSection()


# Of the other sections and keys `AccessSettings` reads nothing, right or wrong.
ACCESS_KEYS: Mapping[str, tuple[str, ...]] = {
    "database": ("url",),
    "server": ("listen",),
    "access": ("viewers", "operators", "admins"),
    "sign_in": ("url",),
    "reminders": ("contact",),
}


def check_all(raw: Raw, secrets: Mapping[str, str], shipped: tuple[str, ...]) -> list[SettingProblem]:
    """Checks between keys. `shipped` are the presets that ship with Costguard."""
    return [
        *server.check(raw, secrets),
        *fleet.check(raw),
        *slack.check(raw, secrets),
        *reminders.check(raw),
        *access.check(raw, secrets),
        *presets.check(raw),
        *budgets.check(raw, shipped),
        *limits.check(raw, shipped),
        *webhooks.check(raw, secrets),
        *trackers.check(raw, secrets),
    ]


def setting_keys(model: type_of_model = Settings, prefix: str = "") -> Iterator[str]:
    """Every key as a dotted path; NAME stands for a name that the user chooses: `presets.NAME.limit`."""
    for key, annotation in _fields(model).items():
        inner, named = _inside(annotation)
        path = f"{prefix}{key}" + (f".{ANY_NAME}" if named else "")
        if inner is None:
            yield f"{prefix}{key}"
        else:
            yield from setting_keys(inner, f"{path}.")


def pattern_of(path: Sequence[str | int]) -> str:
    """`presets.NAME.limit` for `presets.t4.limit`: the same key, whatever the user called its table."""
    parts: list[str] = []
    model: type_of_model | None = Settings
    named = False
    for part in path:
        if named:
            named = False
            parts.append(ANY_NAME)
            continue
        parts.append(str(part))
        annotation = _fields(model).get(str(part)) if model else None
        model, named = _inside(annotation)
    return ".".join(parts)


def keys_in(path: Sequence[str | int]) -> list[str]:
    """The keys that the table at this path may hold; empty where it holds names of the user's choice."""
    pattern = pattern_of(path)
    depth = len(path)
    paths = [key.split(".") for key in setting_keys()]
    keys = {parts[depth] for parts in paths if len(parts) > depth and ".".join(parts[:depth]) == pattern}
    return sorted(keys - {ANY_NAME})


def _fields(model: type_of_model) -> dict[str, Any]:
    return {key: field.annotation for key, field in model.model_fields.items() if not field.exclude}


def _inside(annotation: Any) -> tuple[type_of_model | None, bool]:
    """The model that a field holds, and whether under names of the user's choice."""
    if NoneType in get_args(annotation):
        (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if get_origin(annotation) is Mapping:
        inner = get_args(annotation)[1]
        return (inner, True) if isinstance(inner, type) and issubclass(inner, BaseModel) else (None, False)
    return None, False
