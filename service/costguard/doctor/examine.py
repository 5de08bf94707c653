"""Puts together what a set-up needs of Google, and judges the answers. Pure: main asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from costguard.doctor import feed_checks
from costguard.doctor import google_checks as judged
from costguard.doctor.finding import Finding, NotAnswered, Topic, needs
from costguard.doctor.google_checks import Caller, PresetAnswer, QuotaAnswers
from costguard.doctor.permissions import (
    ACT_AS_ROLE,
    BILL_ROLE,
    CODE_ROLE,
    DISCOVERY_ROLE,
    OUTPUT_ROLE,
    QUERY_ROLE,
    Feature,
    GooglePermission,
    GrantedOn,
    needed,
)
from costguard.model.launch import Recipe

DEFAULT = "default"  # a preset's service account: the project's own
CATALOGUE = "cloudbilling.googleapis.com"
_ASK_APIS = "serviceusage.services.get"
_READS_TOPIC = "pubsub.subscriptions.get"
TPU_API = "tpu.googleapis.com"
VERTEX_API = "aiplatform.googleapis.com"
OPTIONAL_APIS = {Feature.TPU_NODES: TPU_API, Feature.VERTEX: VERTEX_API, Feature.STOP_VERTEX: VERTEX_API}
"""The APIs that a watched project may be without: then it has nothing of them, and needs no permission for them."""
Granted = frozenset[str] | NotAnswered

_OF_JOBS = frozenset({Feature.LAUNCH, Feature.LAUNCH_GROUPS})


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """The parts of Google that a set-up uses. `presets`: those for jobs, none where no jobs are launched."""

    projects: tuple[str, ...]
    features: frozenset[Feature]
    presets: Mapping[str, Recipe] = field(default_factory=dict)
    never_stopped: frozenset[str] = frozenset()  # projects whose VMs no rule stops
    code_bucket: str = ""
    output_bucket: str = ""
    table: str = ""
    billed_project: str = ""
    subscription: str = ""  # of events
    reads_catalogue: bool = True
    places: tuple[str, ...] = ()  # organizations/N and folders/N whose projects are found

    def wanted(self, project: str, *, launches: bool) -> list[GooglePermission]:
        left_out = {Feature.STOP} if project in self.never_stopped else set()
        return needed(self.features - left_out - (set() if launches else _OF_JOBS), GrantedOn.PROJECT)

    @property
    def launches(self) -> bool:
        return Feature.LAUNCH in self.features

    def apis(self, *, launches: bool) -> set[str]:
        """Returns those of a watched project. Service Usage answers for itself."""
        features = self.features - (set() if launches else _OF_JOBS)
        return {one.api for one in needed(features, GrantedOn.PROJECT)} - {
            "serviceusage.googleapis.com",
            *OPTIONAL_APIS.values(),
        }

    @property
    def regions(self) -> list[str]:
        zones = [zone for recipe in self.presets.values() for zone in recipe.zones]
        return list(dict.fromkeys(zone.rpartition("-")[0] for zone in zones))

    @property
    def accounts(self) -> list[str]:
        return list(dict.fromkeys(one.service_account for one in self.presets.values() if one.service_account))

    def of_buckets(self) -> dict[str, list[GooglePermission]]:
        """The permissions on each bucket; one bucket may hold both code and output."""
        wanted: dict[str, dict[str, GooglePermission]] = {}
        for bucket, feature in ((self.code_bucket, Feature.CODE), (self.output_bucket, Feature.OUTPUT)):
            for one in needed({feature}, GrantedOn.BUCKET) if bucket else ():
                wanted.setdefault(bucket, {}).setdefault(one.name, one)
        return {bucket: list(names.values()) for bucket, names in wanted.items()}


@dataclass(frozen=True, slots=True)
class ProjectAnswers:
    """The answers about one watched project. `quotas` is None where they were not asked for."""

    granted: Granted
    apis: Mapping[str, bool] | NotAnswered
    quotas: QuotaAnswers | None = None
    default_account: str | NotAnswered = ""
    vcpus: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GoogleAnswers:
    caller: Caller | NotAnswered
    projects: Mapping[str, ProjectAnswers]
    home_apis: Mapping[str, bool] | NotAnswered = field(default_factory=dict)  # of the account's own project
    accounts: Mapping[str, Granted] = field(default_factory=dict)
    buckets: Mapping[str, Granted] = field(default_factory=dict)
    table: Granted = frozenset()
    billed: Granted = frozenset()
    subscription: Granted = frozenset()
    topic: tuple[str, frozenset[str]] | NotAnswered = ("", frozenset())  # its name, and what is granted on it
    presets: Sequence[PresetAnswer] = ()
    places: Mapping[str, Granted] = field(default_factory=dict)
    asked_in: str = ""  # the project in which the presets' parts were looked for


def believed(answers: ProjectAnswers) -> Granted:
    """Returns what is granted. `{}` grants nothing, and may be a proxy's: it counts where a read is refused as well."""
    if answers.granted or isinstance(answers.granted, NotAnswered):
        return answers.granted
    if isinstance(answers.apis, NotAnswered) and answers.apis.is_refused:
        return answers.granted
    return NotAnswered("the answer names no permission, and nothing else that Google refused confirms it.")


def launching_projects(plan: SetupPlan, granted: Mapping[str, Granted]) -> list[str]:
    """The projects that are meant for jobs: those that grant something of the role, or all where none does."""
    if not plan.launches:
        return []
    return [project for project in granted if judged.launches_in(granted[project])] or list(granted)


def google(plan: SetupPlan, answers: GoogleAnswers) -> Iterator[Finding]:
    """Every finding about Google. A question whose permission is known to lack was not asked, and has no line."""
    yield from judged.caller(answers.caller)
    who = answers.caller if isinstance(answers.caller, Caller) else Caller()
    granted = {project: believed(one) for project, one in answers.projects.items()}
    launching = set(launching_projects(plan, granted))
    for project, one in answers.projects.items():
        yield from _project(plan, project, one, granted[project], who, launches=project in launching)
    yield from _home(plan, answers, who)
    for place, of_place in answers.places.items():
        wanted = needed({Feature.DISCOVERY}, GrantedOn.SEARCHED_PLACE)
        command = judged.grant_on_place(place, DISCOVERY_ROLE, plan.places, who)
        yield from judged.at_place(Topic.PERMISSIONS, place, wanted, of_place, command)
    yield from judged.presets(answers.asked_in, answers.presets)
    for account, of_account in answers.accounts.items():
        wanted = needed({Feature.LAUNCH}, GrantedOn.SERVICE_ACCOUNT)
        owner = account.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
        project = owner if owner in plan.projects else answers.asked_in
        command = judged.grant_on_account(account, project, ACT_AS_ROLE, who)
        yield from judged.at_place(Topic.PERMISSIONS, account, wanted, of_account, command)
    for bucket, wanted in plan.of_buckets().items():
        role = CODE_ROLE if bucket == plan.code_bucket else OUTPUT_ROLE
        command = judged.grant_on_bucket(bucket, role, who)
        yield from judged.at_place(Topic.BUCKETS, f"gs://{bucket}", wanted, answers.buckets[bucket], command)
    yield from _bill(plan, answers, who)
    if plan.subscription:
        wanted = needed({Feature.EVENTS}, GrantedOn.SUBSCRIPTION)
        yield from feed_checks.subscription(plan.subscription, wanted, answers.subscription, who)
        if not isinstance(answers.subscription, NotAnswered) and _READS_TOPIC in answers.subscription:
            heartbeats = needed({Feature.EVENTS}, GrantedOn.TOPIC)
            yield from feed_checks.topic(plan.subscription, heartbeats, answers.topic, who)


def _project(
    plan: SetupPlan, project: str, one: ProjectAnswers, granted: Granted, who: Caller, *, launches: bool
) -> Iterator[Finding]:
    enabled = {} if isinstance(one.apis, NotAnswered) else one.apis
    wanted = [
        right
        for right in plan.wanted(project, launches=launches)
        if right.feature not in OPTIONAL_APIS or enabled.get(OPTIONAL_APIS[right.feature]) is True
    ]
    yield from judged.in_project(project, wanted, granted, who)
    if isinstance(granted, NotAnswered) or _ASK_APIS in granted:
        yield from judged.enabled(project, plan.apis(launches=launches), one.apis)
    if one.quotas is not None and launches:
        yield from judged.quotas(project, plan.presets, one.vcpus, one.quotas)


def _home(plan: SetupPlan, answers: GoogleAnswers, who: Caller) -> Iterator[Finding]:
    """The API of the price catalogue is needed where the account is, not where VMs are."""
    if plan.reads_catalogue and who.project:
        yield from judged.enabled(who.project, {CATALOGUE}, answers.home_apis, ", for prices")


def _bill(plan: SetupPlan, answers: GoogleAnswers, who: Caller) -> Iterator[Finding]:
    if not plan.table:
        return
    table, billed = (needed({Feature.BILL}, place) for place in (GrantedOn.TABLE, GrantedOn.BILLED_PROJECT))
    command = judged.grant_on_table(plan.table, BILL_ROLE, who)
    yield from judged.at_place(Topic.BILL, plan.table, table, answers.table, command)
    command = judged.grant_in_project(plan.billed_project, QUERY_ROLE, who)
    yield from judged.at_place(Topic.BILL, plan.billed_project, billed, answers.billed, command)


def no_credentials(why: str) -> Finding:
    """Says that without any, nothing at Google can be asked."""
    return needs(
        Topic.CREDENTIALS,
        "account",
        f"{why} Nothing at Google could be asked.",
        "gcloud auth application-default login",
    )
