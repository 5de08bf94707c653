"""`costguard doctor`: asks all that a set-up needs, in parallel and within a limit, and has the answers judged.

It changes nothing. A question that is not answered in time is unknown, and delays no other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from costguard.db import connect, database_file, health_rows
from costguard.db.backup import archive
from costguard.db.tables import attempts, messages
from costguard.db.transaction import Database
from costguard.db.version import HEAD, revision_in
from costguard.doctor.examine import SetupPlan
from costguard.doctor.finding import Finding, NotAnswered, Topic, in_order, unknown
from costguard.doctor.permissions import Feature
from costguard.doctor.server_checks import DatabaseState, ServerAnswers, server
from costguard.errors import Invalid, StoreError
from costguard.gce.asking import OtherEndpoints, SetupQuestions
from costguard.ledger.discovery.watch import WatchList
from costguard.main.google_setup import GoogleSetup, Questions, attempt
from costguard.main.messaging import slack_checkup
from costguard.model.buying import FLEX, has_group_identity, models_of
from costguard.settings import Settings

_LONGEST_S, _LONGEST_MORE_S = 6.0, 0.1  # 20 projects in 8 s, 500 in 56 s; the goals of 10 and 60 s hold the start too
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
        table=table,
        billed_project=settings.bill.billed_project or table.partition(".")[0],
        subscription=settings.feed.subscription or "",
        reads_catalogue=settings.prices.enabled and settings.prices.endpoint is None,
    )


def examined(
    settings: Settings,
    now: Callable[[], datetime],
    *,
    more: Collection[Feature] = (),
    post: bool = False,
    config: str = "",
    transport: Mapping[str, Any] | None = None,
) -> Sequence[Finding]:
    """Every finding, by topic. Posts one message, and edits it, where `post` says so; changes nothing else.

    `transport`: how Google is asked, in other words of `SetupQuestions` than the settings have.
    """
    plan = plan_of(settings, more, _watched(settings))
    state = _state(settings)
    message_at = state.message_at if isinstance(state, DatabaseState) else None
    with Questions(_LONGEST_S + _LONGEST_MORE_S * len(plan.projects)) as questions:
        google = SetupQuestions(
            settings.compute.endpoint,
            others=OtherEndpoints(settings.checkpoints.gcs_endpoint, settings.bill.endpoint, settings.feed.endpoint),
            now=now,
            **{"wait": questions.over.wait, **(transport or {})},
        )
        with closing(google):
            if settings.slack is not None:
                questions.put(
                    "slack", lambda: slack_checkup(settings, now(), with_message=post, accepted_at=message_at)
                )
            findings = GoogleSetup(plan, google, questions).findings()
            ahead = google.ahead
        if settings.slack is not None:
            slack = questions.answer("slack")
            findings += [unknown(Topic.SLACK, "token", slack.why)] if isinstance(slack, NotAnswered) else slack
    findings += server(_here(settings, state, ahead, config), now())
    return in_order(findings)


def _watched(settings: Settings) -> tuple[str, ...] | None:
    """The projects that are watched by the database; None where it does not say: then the listed ones are asked."""
    if not settings.watch.scope.places:
        return None
    url = settings.database.url.get_secret_value()
    try:
        file = connect.file_of(connect.parse(url))
        if file is not None and not file.exists():
            return None  # to open it would make it
        with closing(Database.open(url)) as database:
            with database.read() as connection:
                if revision_in(connection) != HEAD:
                    return None
            return tuple(WatchList(database, settings.watch.scope)())
    except StoreError:
        return None  # the check of the database says so


def _state(settings: Settings) -> DatabaseState | NotAnswered:
    url = settings.database.url.get_secret_value()
    try:
        file = connect.file_of(connect.parse(url))
        if file is not None and not file.exists():
            return DatabaseState(None)  # to open it would make it
        with closing(Database.open(url)) as database, database.read() as connection:
            revision = revision_in(connection)
            if revision != HEAD:
                return DatabaseState(revision)
            report = connection.execute(
                select(attempts.c.heard_at, attempts.c.name).order_by(attempts.c.heard_at.desc().nulls_last()).limit(1)
            ).first()
            return DatabaseState(
                revision,
                health_rows.catalogue_read_at(connection),
                connection.scalar(select(func.max(messages.c.accepted_at))),
                report.heard_at if report is not None else None,
                report.name if report is not None else "",
            )
    except StoreError as error:
        return NotAnswered(str(error))


def _here(
    settings: Settings, state: DatabaseState | NotAnswered, ahead: timedelta | None, config: str
) -> ServerAnswers:
    """Reads what this computer shows."""
    url = connect.parse(settings.database.url.get_secret_value())
    file = connect.file_of(url)
    folder = str(file.resolve().parent) if file is not None else ""
    return ServerAnswers(
        name=connect.describe(url),
        head=HEAD,
        state=state,
        file=str(file) if file is not None else "",
        is_there=file is None or file.exists(),
        wide=_wide(file, connect.widest_mode_of(url)) if file is not None else None,
        folder=folder,
        free_bytes=attempt(lambda: shutil.disk_usage(folder).free) if folder else None,
        backups=settings.database.backups or "",
        backup_at=_newest_backup(settings.database.backups),
        ahead=ahead if settings.slack is None else None,  # Slack's answer shows it as well
        guard_url=settings.jobs.guard_url or "",
        config=config,
        reads_prices=settings.prices.enabled,
    )


def _wide(file: Path, widest: int) -> tuple[str, str] | None:
    try:
        database_file.check(file, widest)
    except StoreError as error:
        return error.message, error.what_next
    return None


def _newest_backup(folder: str | None) -> datetime | NotAnswered | None:
    if folder is None:
        return None
    try:
        files = list(Path(folder).glob("*.zip"))
        if not Path(folder).is_dir():
            return NotAnswered(f"There is no folder {folder}.")
    except OSError as error:
        return NotAnswered(f"{folder} cannot be read: {error.strerror}.")
    made = [at for file in files if (at := _made_at(file)) is not None]
    return max(made, default=None)


def _made_at(file: Path) -> datetime | None:
    try:
        with archive.reading(file) as backup:
            return backup.manifest.made_at
    except (Invalid, OSError):
        return None  # it is no backup
