"""[watch], [compute], [prices], [idle] and [owners]: what is watched, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from costguard.ledger.owner import OwnerRules
from costguard.settings.problems import Raw, SettingProblem, unexpected, watched_projects
from costguard.settings.values import (
    ClusterName,
    Domain,
    Duration,
    Endpoint,
    LabelKey,
    LabelValue,
    Listed,
    MailAddress,
    ProjectId,
    Section,
    between,
)

_PLACEHOLDER = "my-project"  # in example.toml


def _distinct(projects: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({project for project in projects if projects.count(project) > 1})
    if twice:
        raise ValueError(f"each project once ({', '.join(twice)} is listed more than once)")
    return projects


class WatchSection(Section):
    projects: Annotated[tuple[ProjectId, ...], Listed, AfterValidator(_distinct), Field(min_length=1)]
    vms_without_gpu: Literal["watch", "ignore"] = "watch"
    tpu_nodes: Literal["watch", "ignore"] = "watch"
    every: Annotated[Duration, between(timedelta(seconds=10), timedelta(hours=1))] = timedelta(minutes=1)
    parallel: Annotated[int, Field(ge=1, le=64)] = 8


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
    """The example's project is never the user's."""
    for index, project in enumerate(watched_projects(raw)):
        if project == _PLACEHOLDER:
            expected = "the id of your own project, as `gcloud projects list` shows it; this one is the example's"
            yield unexpected(("watch", "projects", index), project, expected)
