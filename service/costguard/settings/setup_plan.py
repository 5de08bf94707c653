"""Plans what a set-up by these settings needs of Google."""

from __future__ import annotations

from collections.abc import Collection

from costguard.doctor.examine import SetupPlan
from costguard.doctor.permissions import Feature
from costguard.model.buying import FLEX, has_group_identity, models_of
from costguard.settings.sections import Settings

_KEEPERS = {
    "group": Feature.STOP_GROUPS,
    "workbench": Feature.STOP_WORKBENCH,
    "workstation": Feature.STOP_WORKSTATIONS,
    "vertex": Feature.STOP_VERTEX,
}


def features_of(settings: Settings, more: Collection[Feature] = ()) -> frozenset[Feature]:
    """Lists what the settings turn on, and `more`: in shadow mode people may stop VMs, with the role for it."""
    chosen = {Feature.WATCH, Feature.LOOSE, *more}
    chosen |= {Feature.DISCOVERY} if settings.watch.scope.places else set()
    chosen |= {Feature.TPU_NODES} if settings.watch.tpu_nodes == "watch" else set()
    chosen |= {Feature.VERTEX} if settings.watch.vertex == "watch" else set()
    chosen |= {Feature.IDLE} if settings.idle.enabled else set()
    chosen |= {Feature.STOP} if not settings.enforcement.shadow else set()
    chosen |= {_KEEPERS[keeper] for keeper in settings.enforcement.stop_through}
    chosen |= {Feature.LAUNCH} if settings.jobs.guard_url else set()
    chosen |= {Feature.LAUNCH_GROUPS} if settings.jobs.guard_url and _buys_groups(settings) else set()
    chosen |= {Feature.CODE} if _bucket(settings.jobs.code) else set()
    chosen |= {Feature.OUTPUT} if _bucket(settings.jobs.logs) else set()
    chosen |= {Feature.STAGE} if _stage_buckets(settings) else set()
    chosen |= {Feature.BILL} if settings.bill.table else set()
    chosen |= {Feature.EVENTS} if settings.feed.subscription else set()
    return frozenset(chosen)


def _buys_groups(settings: Settings) -> bool:
    """Says whether a preset may buy several VMs by flex-start, all at once."""
    recipes = (one.launch for one in settings.preset_list() if one.launch is not None)
    return any(FLEX in models_of(one) and has_group_identity(one) for one in recipes)


def _bucket(place: str | None) -> str:
    """The bucket of a `gs://` address; "" for any other."""
    return place.removeprefix("gs://").partition("/")[0] if place and place.startswith("gs://") else ""


def _stage_buckets(settings: Settings) -> tuple[str, ...]:
    """Returns the buckets of Cloud Storage in which data is staged, each once."""
    places = (settings.stage.bucket, *settings.stage.regions.values())
    return tuple(dict.fromkeys(bucket for place in places if (bucket := _bucket(place))))


def plan_of(settings: Settings, more: Collection[Feature] = (), projects: tuple[str, ...] | None = None) -> SetupPlan:
    """Makes the plan of a set-up. `projects` are those that are watched, also those found; None: the listed ones."""
    features = features_of(settings, more)
    table = settings.bill.table or ""
    launches = Feature.LAUNCH in features
    return SetupPlan(
        projects=settings.watch.scope.kept if projects is None else projects,
        places=settings.watch.scope.places,
        features=features,
        presets={one.name: one.launch for one in settings.preset_list() if one.launch is not None} if launches else {},
        never_stopped=frozenset(settings.enforcement.protect_projects),
        code_bucket=_bucket(settings.jobs.code),
        output_bucket=_bucket(settings.jobs.logs),
        stage_buckets=_stage_buckets(settings),
        table=table,
        billed_project=settings.bill.billed_project or table.partition(".")[0],
        subscription=settings.feed.subscription or "",
        reads_catalogue=settings.prices.enabled and settings.prices.endpoint is None,
    )
