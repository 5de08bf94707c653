"""[watch], [compute], [prices], [idle] and [owners]: what is watched, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from costguard.ledger.discovery.rules import WatchScope
from costguard.ledger.owner import OwnerRules
from costguard.settings.problems import Raw, SettingProblem, finds_projects, unexpected, watched_projects
from costguard.settings.values import (
    ClusterName,
    Domain,
    Duration,
    Endpoint,
    Folder,
    LabelKey,
    LabelValue,
    Listed,
    MailAddress,
    Organization,
    ProjectId,
    ProjectPattern,
    RegionName,
    Section,
    between,
)

_PLACEHOLDER = "my-project"  # in example.toml
_NOTHING_WATCHED = (
    'missing; expected the projects to watch: projects = ["my-project"], or organization = "123456789012" or '
    'folders = ["123456789012"], whose projects are found'
)


def _distinct(what: str) -> AfterValidator:
    def check(values: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"each {what} once ({', '.join(twice)} is listed more than once)")
        return values

    return AfterValidator(check)


class WatchSection(Section):
    projects: Annotated[tuple[ProjectId, ...], Listed, _distinct("project"), Field(min_length=1)] = ()
    organization: Organization | None = None
    folders: Annotated[tuple[Folder, ...], Listed, _distinct("folder")] = ()
    exclude: Annotated[tuple[ProjectPattern, ...], Listed, _distinct("project")] = ()
    vms_without_gpu: Literal["watch", "ignore"] = "watch"
    tpu_nodes: Literal["watch", "ignore"] = "watch"
    vertex: Literal["watch", "ignore"] = "watch"
    vertex_regions: Annotated[tuple[RegionName, ...], Listed, _distinct("region")] = ()
    every: Annotated[Duration, between(timedelta(seconds=10), timedelta(hours=1))] = timedelta(minutes=1)
    parallel: Annotated[int, Field(ge=1, le=64)] = 8

    @property
    def scope(self) -> WatchScope:
        """Returns what is watched: the listed projects, and where others are looked for."""
        organizations = (self.organization,) if self.organization is not None else ()
        return WatchScope(self.projects, (*organizations, *self.folders), self.exclude)


class ComputeSection(Section):
    endpoint: Endpoint | None = None  # None: Google's, with credentials


class PricesSection(Section):
    enabled: bool = True
    endpoint: Endpoint | None = None
    refresh_every: Annotated[Duration, between(timedelta(minutes=1), timedelta(days=30))] = timedelta(days=1)


class IdleSection(Section):
    enabled: bool = True
    every: Annotated[Duration, between(timedelta(seconds=10), timedelta(hours=1))] = timedelta(minutes=5)


class OwnersSection(Section):
    label: LabelKey = "owner"
    domain: Domain | None = None
    map: Mapping[LabelValue, MailAddress] = Field(default_factory=dict)
    clusters: Mapping[ClusterName, MailAddress] = Field(default_factory=dict)

    @property
    def rules(self) -> OwnerRules:
        return OwnerRules(self.label, self.domain, dict(self.map), dict(self.clusters))


def check(raw: Raw) -> Iterator[SettingProblem]:
    """The example's project is never the user's, and something must be left to watch."""
    watched = watched_projects(raw)
    for index, project in enumerate(watched):
        if project == _PLACEHOLDER:
            expected = "the id of your own project, as `gcloud projects list` shows it; this one is the example's"
            yield unexpected(("watch", "projects", index), project, expected)
    watch = raw.get("watch")
    if not isinstance(watch, dict):
        return
    if "projects" not in watch and not finds_projects(raw):
        yield SettingProblem(("watch", "projects"), _NOTHING_WATCHED)
    patterns = watch.get("exclude")
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        return
    scope = WatchScope(tuple(watched), (), tuple(patterns))
    if "*" in patterns or (watched and not scope.kept and not finds_projects(raw)):
        left = "patterns that leave a project to watch: these exclude every one"
        yield unexpected(("watch", "exclude"), patterns, left)
