"""Access to checkpoints and data in buckets, built from the settings and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from costguard.checkpoints.archives import StoredArchives
from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard.checkpoints.client import look_twice as look_twice
from costguard.checkpoints.sizes import StoredData
from costguard.checkpoints.stages import StoredStages
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.jobs.submit.code import CodeArchives
from costguard_vm.checkpoints.folder import MOST_FILES as MOST_FILES

if TYPE_CHECKING:
    from costguard.settings import Settings

MOST_NEXT_TO_DATABASE = 4 << 30  # bytes of code: 16 folders of the largest size, or thousands of usual ones
PRIVATE = 0o700


def checkpoints(settings: Settings | None, environ: Mapping[str, str], most: int = MOST_FILES) -> StoredCheckpoints:
    """`most`: of files at one location."""
    return StoredCheckpoints(access_of(settings, environ), most)


def data_places(settings: Settings, environ: Mapping[str, str]) -> StoredData:
    return StoredData(access_of(settings, environ))


def access_of(settings: Settings | None, environ: Mapping[str, str]) -> StoreAccess:
    section = settings.checkpoints if settings is not None else None
    return StoreAccess(
        s3_endpoint=(section and section.s3_endpoint) or "",
        s3_region=(section and section.s3_region) or "",
        gcs_endpoint=(section and section.gcs_endpoint) or "",
        environ=environ,
    )


def code_archives(settings: Settings, database: Database, environ: Mapping[str, str] = os.environ) -> CodeArchives:
    """Makes the store of code archives, in real time: the ages of archives are those that their store shows.

    Without a setting they lie in a folder next to an SQLite database; PostgreSQL's replicas share no folder.
    """
    location, most_bytes = settings.jobs.code, None
    if location is None and database.file is not None:
        location, most_bytes = _code_folder(database.file).as_uri(), MOST_NEXT_TO_DATABASE
    access = access_of(settings, environ)
    store = StoredArchives(location, access, PRIVATE) if location is not None else None
    return CodeArchives(store, database, SystemClock(), most_bytes)


def _code_folder(database: Path) -> Path:
    """`costguard-code` next to `costguard.db`; it is made when it is first used."""
    return database.resolve().with_name(f"{database.stem}-code")


def stored_stages(settings: Settings, environ: Mapping[str, str] = os.environ) -> StoredStages:
    """Makes what deletes staged data."""
    return StoredStages(access_of(settings, environ))


def stored_output(settings: Settings, environ: Mapping[str, str] = os.environ) -> Callable[[str], StoredArchives]:
    """Opens the folder with an attempt's output."""
    access = access_of(settings, environ)
    return lambda folder: StoredArchives(folder, access)


def settings_if_any(path: Path | None, environ: Mapping[str, str]) -> Settings | None:
    """Loads the settings; None where no settings file is named or there: a location can be read without one."""
    if path is None and not environ.get("COSTGUARD_CONFIG") and not Path("costguard.toml").exists():
        return None
    from costguard.settings import load  # only here: without a file nothing is loaded, which takes a while

    return load(path, environ)
