"""The databases that tests are given: SQLite files and a real PostgreSQL, both made by the migrations."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings
from sqlalchemy import make_url
from tests import built_commands, statement_cache
from tests.postgres import shared_server

from costguard.db.migrate import upgrade
from costguard.db.tables import changes, metadata
from costguard.db.transaction import Database

# How long examples take says how busy the machine is, and nothing of what is tested. They are the same in every run:
# anyone who wants others sets COSTGUARD_OTHER_EXAMPLES.
settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="COSTGUARD_OTHER_EXAMPLES" not in os.environ,
)
# A deliberate fault is caught by any example; the smallest one does not matter.
settings.register_profile("mutants", settings.get_profile("house"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("house")

# Python's own pace walks the modules of the whole suite again and again: a tenth of the time that tests take.
gc.set_threshold(20_000, 10, 10)
gc.disable()  # until all is collected

# A shell lets what it starts in the background ignore Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where `python3` is a script of pyenv's, each that a simulated VM starts would begin with ten shells: 60 ms.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.base_prefix, "bin")), os.environ["PATH"]))

statement_cache.share()
built_commands.build_once()

# Quicker than TRUNCATE, which makes new files for every table and index.
_EMPTY = "; ".join(
    [f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables) if table is not changes]
    + [
        f"SELECT setval('{table.name}_id_seq', 1, false)"
        for table in metadata.sorted_tables
        if table.autoincrement_column is not None
    ]
)


def pytest_collection_finish() -> None:
    """Freezes the garbage collector's objects: those before the first test stay to the end, and are not looked
    through.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def one_loop_for_requests() -> Iterator[None]:
    """Shares one event loop between all requests of all clients.

    Starlette's own way is a thread and a loop for each request, which costs several times what the request does. A
    client that is entered still has a loop of its own.
    """
    with start_blocking_portal() as portal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "portal", portal)
        yield


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server, shared by all workers."""
    folder = tmp_path_factory.getbasetemp()
    with shared_server(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str, worker_name: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Makes a PostgreSQL database a worker, and a way to empty it: that is quicker than cloning another."""
    with _made(postgres_server, f"migrated_{worker_name}") as url, psycopg.connect(url, autocommit=True) as connection:
        revision = upgrade(url)

        def empty() -> None:
            # What a failed test left open would make us wait for ever.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute(f"{_EMPTY}; UPDATE alembic_version SET version_num = '{revision}'")

        yield url, empty


@pytest.fixture(scope="session")
def worker_name() -> str:
    return f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh, migrated SQLite file."""
    path = tmp_path / "costguard.db"
    shutil.copy(sqlite_template, path)  # with its mode: others' copies are refused
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(migrated_postgres: tuple[str, Callable[[], None]]) -> Iterator[str]:
    """A migrated PostgreSQL database, emptied after the test. Tests that change tables take `empty_database_url`."""
    url, empty = migrated_postgres
    yield url
    empty()


@pytest.fixture
def database_url(dialect: str, request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database of either kind, as a user would name it."""
    url: str = request.getfixturevalue("sqlite_url" if dialect == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def empty_database_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of either kind without any table; the SQLite file does not exist yet."""
    if dialect == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    worker = request.getfixturevalue("worker_name")
    with _made(request.getfixturevalue("postgres_server"), f"empty_{worker}") as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh, migrated database of either kind."""
    with closing(Database.open(database_url)) as opened:
        yield opened


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    """A fresh, migrated SQLite database, for tests of what lies above the store."""
    with closing(Database.open(sqlite_url)) as opened:
        yield opened


@contextmanager
def _made(server: str, name: str) -> Iterator[str]:
    """A database on the server, which is dropped afterwards."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
