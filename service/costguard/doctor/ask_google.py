"""Asks Google all that a set-up needs, in parallel and within a limit, and has the answers judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from costguard.doctor import examine
from costguard.doctor.examine import (
    CATALOGUE,
    DEFAULT,
    OPTIONAL_APIS,
    GoogleAnswers,
    Granted,
    ProjectAnswers,
    SetupPlan,
)
from costguard.doctor.finding import Finding, NotAnswered
from costguard.doctor.google_checks import Caller, PresetAnswer, QuotaAnswers, launches_in
from costguard.doctor.permissions import Feature, GrantedOn, needed
from costguard.doctor.questions import Questions, attempt
from costguard.model.launch import Quota, Recipe

_COMPUTE = "compute.googleapis.com"
_WITNESS = "serviceusage.services.get"
_SILENT = ("unreachable", "credentials")


class TokenOwned(Protocol):
    """The account that Google's answers are for, and the scopes of its token."""

    @property
    def account(self) -> str: ...
    @property
    def scopes(self) -> frozenset[str]: ...


class SpanningQuotas(Protocol):
    """Quotas that span regions, and the account that VMs run as where a preset says "default"."""

    @property
    def quotas(self) -> Mapping[str, Quota]: ...
    @property
    def default_account(self) -> str: ...


class AsksGoogle(Protocol):
    """Asks Google about a set-up, from several threads. Each raises CloudError where there is no usable answer."""

    def owner(self) -> TokenOwned: ...
    def granted_in_project(self, project: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_place(self, place: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_account(self, account: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_bucket(self, bucket: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_table(self, table: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_subscription(self, subscription: str, names: Sequence[str], /) -> frozenset[str]: ...
    def granted_on_topic(self, subscription: str, names: Sequence[str], /) -> tuple[str, frozenset[str]]: ...
    def enabled(self, project: str, apis: Iterable[str], /) -> Mapping[str, bool]: ...
    def project(self, project: str, /) -> SpanningQuotas: ...
    def region(self, project: str, region: str, /) -> Mapping[str, Quota]: ...
    def has_image(self, project: str, image: str, /) -> bool: ...
    def has_machine_type(self, project: str, zone: str, name: str, /) -> bool: ...
    def has_gpu(self, project: str, zone: str, name: str, /) -> bool: ...
    def vcpus(self, project: str, zone: str, name: str, /) -> int: ...

    def vcpus_by_name(self, machine_type: str, /) -> int | None:
        """Returns what the name of a machine type says, without asking; None: it has to be asked."""
        ...


@dataclass(frozen=True, slots=True)
class _Basics:
    granted: Granted
    apis: Mapping[str, bool] | NotAnswered

    @property
    def has_quotas(self) -> bool:
        """Jobs may run there, and quotas can be asked: what cannot be is named by its permission or API already."""
        return (
            not isinstance(self.granted, NotAnswered)
            and launches_in(self.granted)
            and {"compute.regions.get", "compute.projects.get"} <= self.granted
            and self.has_compute
        )

    @property
    def has_compute(self) -> bool:
        return isinstance(self.apis, NotAnswered) or self.apis.get(_COMPUTE) is not False


class GoogleSetup:
    """Asks Google all that a plan needs, each thing once; quotas once a project shows that jobs may run there."""

    def __init__(self, plan: SetupPlan, google: AsksGoogle, questions: Questions) -> None:
        self._plan = plan
        self._google = google
        self._questions = questions
        self._measured: set[str] = set()  # machine types whose vCPUs were asked for

    def findings(self) -> list[Finding]:
        questions, google, plan = self._questions, self._google, self._plan
        questions.put("owner", google.owner)
        for project in plan.projects:
            questions.put(("basics", project), partial(self._basics, project))
        owner = questions.answer("owner")
        if isinstance(owner, NotAnswered) and owner.code == "credentials":
            return [examine.no_credentials(owner.why)]
        who = owner if isinstance(owner, NotAnswered) else Caller(owner.account, owner.scopes)
        reads_home = plan.reads_catalogue and isinstance(who, Caller) and who.project != ""
        if reads_home and isinstance(who, Caller):
            questions.put("home", partial(google.enabled, who.project, [CATALOGUE]))
        self._put_places()
        basics = {project: self._answered_basics(project) for project in plan.projects}
        asked_in, parts = self._put_parts(basics)
        projects = {project: self._project(project, one, asked_in) for project, one in basics.items()}
        accounts = self._accounts(projects)
        presets = [
            replace(part, is_there=questions.answer(("part", part.kind, part.zone, part.name))) for part in parts
        ]
        answers = GoogleAnswers(
            caller=who,
            projects=projects,
            home_apis=questions.answer("home")
            if isinstance(who, Caller) and who.project and plan.reads_catalogue
            else {},
            accounts=accounts,
            buckets={bucket: questions.answer(("bucket", bucket)) for bucket in plan.of_buckets()},
            table=questions.answer("table") if plan.table else frozenset(),
            billed=questions.answer("billed") if plan.table else frozenset(),
            subscription=questions.answer("subscription") if plan.subscription else frozenset(),
            topic=questions.answer("topic") if plan.subscription else ("", frozenset()),
            presets=presets,
            asked_in=asked_in,
            places={place: questions.answer(("place", place)) for place in plan.places},
        )
        return list(examine.google(plan, answers))

    def _basics(self, project: str) -> _Basics:
        plan, google = self._plan, self._google
        names = [one.name for one in plan.wanted(project, launches=plan.launches)]
        granted = attempt(partial(google.granted_in_project, project, names))
        if isinstance(granted, NotAnswered) and granted.code in _SILENT:
            return _Basics(granted, granted)  # it would only cost the same time again
        optional = {api for feature, api in OPTIONAL_APIS.items() if feature in plan.features}
        apis = plan.apis(launches=plan.launches) | optional
        basics = _Basics(granted, attempt(partial(google.enabled, project, apis)))
        if plan.launches and basics.has_quotas:
            self._questions.put(("project", project), partial(google.project, project))
            for region in plan.regions:
                self._questions.put(("region", project, region), partial(google.region, project, region))
        return basics

    def _answered_basics(self, project: str) -> _Basics:
        answer = self._questions.answer(("basics", project))
        return _Basics(answer, answer) if isinstance(answer, NotAnswered) else answer

    def _project(self, project: str, basics: _Basics, asked_in: str) -> ProjectAnswers:
        if not (self._plan.launches and basics.has_quotas):
            return ProjectAnswers(basics.granted, basics.apis)
        spanning = self._questions.answer(("project", project))
        is_known = not isinstance(spanning, NotAnswered)
        regions = {region: self._questions.answer(("region", project, region)) for region in self._plan.regions}
        return ProjectAnswers(
            basics.granted,
            basics.apis,
            QuotaAnswers(regions, spanning.quotas if is_known else spanning),
            spanning.default_account if is_known else spanning,
            {name: self._vcpus(recipe, asked_in) for name, recipe in self._plan.presets.items()},
        )

    def _vcpus(self, recipe: Recipe, asked_in: str) -> int | None:
        if (vcpus := self._google.vcpus_by_name(recipe.machine_type)) is not None:
            return vcpus
        if not asked_in or recipe.machine_type not in self._measured:
            return None
        answer = self._questions.answer(("vcpus", recipe.machine_type))
        return answer if isinstance(answer, int) else None

    def _put_places(self) -> None:
        """Asks about buckets, the table, the subscription, and the accounts that presets name."""
        questions, google, plan = self._questions, self._google, self._plan
        for bucket, wanted in plan.of_buckets().items():
            questions.put(("bucket", bucket), partial(google.granted_on_bucket, bucket, [one.name for one in wanted]))
        if plan.table:
            on_table, on_project = (
                [one.name for one in needed({Feature.BILL}, place)]
                for place in (GrantedOn.TABLE, GrantedOn.BILLED_PROJECT)
            )
            questions.put("table", partial(google.granted_on_table, plan.table, on_table))
            questions.put("billed", partial(self._billed, plan.billed_project, on_project))
        if plan.subscription:
            on_it = [one.name for one in needed({Feature.EVENTS}, GrantedOn.SUBSCRIPTION)]
            questions.put("subscription", partial(google.granted_on_subscription, plan.subscription, on_it))
            on_topic = [one.name for one in needed({Feature.EVENTS}, GrantedOn.TOPIC)]
            questions.put("topic", partial(google.granted_on_topic, plan.subscription, on_topic))
        for account in plan.accounts:
            if account != DEFAULT:
                self._put_account(account)
        for place in plan.places:
            names = [one.name for one in needed({Feature.DISCOVERY}, GrantedOn.SEARCHED_PLACE)]
            questions.put(("place", place), partial(google.granted_on_place, place, names))

    def _billed(self, project: str, names: Sequence[str]) -> Granted:
        """An empty answer is believed where Google refuses to say which APIs are on: see `examine.believed`."""
        granted = self._google.granted_in_project(project, [*names, _WITNESS])
        if not granted:
            apis = attempt(partial(self._google.enabled, project, ["bigquery.googleapis.com"]))
            return examine.believed(ProjectAnswers(granted, apis))
        return granted & set(names)

    def _put_account(self, account: str) -> None:
        names = [one.name for one in needed({Feature.LAUNCH}, GrantedOn.SERVICE_ACCOUNT)]
        self._questions.put(("account", account), partial(self._google.granted_on_account, account, names))

    def _accounts(self, projects: Mapping[str, ProjectAnswers]) -> dict[str, Granted]:
        """The accounts that VMs run as: those that presets name, and each launching project's default one."""
        accounts = [account for account in self._plan.accounts if account != DEFAULT]
        if DEFAULT in self._plan.accounts:
            defaults = [one.default_account for one in projects.values() if isinstance(one.default_account, str)]
            for account in filter(None, defaults):
                self._put_account(account)
                accounts.append(account)
        return {account: self._questions.answer(("account", account)) for account in accounts}

    def _put_parts(self, basics: Mapping[str, _Basics]) -> tuple[str, list[PresetAnswer]]:
        """Asks whether what presets name is there, in the first project where that can be asked."""
        google = self._google
        able = [name for name, one in basics.items() if self._plan.launches and one.has_quotas]
        if not able:
            return "", []
        project = able[0]
        granted = basics[project].granted
        assert not isinstance(granted, NotAnswered)
        parts = [part for part in _parts(self._plan) if _may_ask(part, project, granted)]
        checks: dict[str, Callable[..., bool]] = {
            "image": google.has_image,
            "machine type": google.has_machine_type,
            "GPU": google.has_gpu,
        }
        for kind, zone, name in dict.fromkeys((part.kind, part.zone, part.name) for part in parts):
            where = (project, zone, name) if zone else (project, name)
            self._questions.put(("part", kind, zone, name), partial(checks[kind], *where))
        for recipe in self._plan.presets.values():
            if google.vcpus_by_name(recipe.machine_type) is None and "compute.machineTypes.get" in granted:
                self._measured.add(recipe.machine_type)
                key = ("vcpus", recipe.machine_type)
                self._questions.put(key, partial(google.vcpus, project, recipe.zones[0], recipe.machine_type))
        return project, parts


def _parts(plan: SetupPlan) -> Iterator[PresetAnswer]:
    """Yields what the presets name. A GPU that is built into a machine type is where that is."""
    for name, recipe in plan.presets.items():
        yield PresetAnswer(name, "image", recipe.image, "", False)
        for zone in recipe.zones:
            yield PresetAnswer(name, "machine type", recipe.machine_type, zone, False)
            if recipe.attaches_gpus:
                yield PresetAnswer(name, "GPU", recipe.gpu_type, zone, False)


def _may_ask(part: PresetAnswer, project: str, granted: frozenset[str]) -> bool:
    """Others' images are public, or a matter of their project."""
    if part.kind == "image":
        is_own = not part.name.startswith("projects/") or part.name.startswith(f"projects/{project}/")
        return not is_own or f"compute.images.{'getFromFamily' if '/family/' in part.name else 'get'}" in granted
    return ("compute.machineTypes.get" if part.kind == "machine type" else "compute.acceleratorTypes.get") in granted
