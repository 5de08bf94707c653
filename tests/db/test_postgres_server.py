"""The tests' own PostgreSQL: one for all processes, and none is left behind."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import select
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
import pytest
from tests.postgres import shared_server


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets us wait for a process that is no child")
@pytest.mark.skipif("COSTGUARD_TEST_POSTGRES" in os.environ, reason="the server is someone else's")
def test_the_server_ends_when_its_last_user_was_killed(tmp_path: Path) -> None:
    """Two processes get one server; killed without a chance to clean up, the last leaves neither it nor its files."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    user = processes.Process(target=_use, args=(tmp_path, theirs))
    user.start()
    url = ours.recv()
    with shared_server(tmp_path) as same, psycopg.connect(same) as connection:
        assert same == url
        [folder] = connection.execute("SHOW data_directory").fetchone() or [""]
        [lines] = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone() or [""]
    server = os.pidfd_open(int(lines.split()[0]))
    assert Path(folder).exists()
    user.kill()
    user.join()
    poll = select.poll()
    poll.register(server, select.POLLIN)
    assert poll.poll(60_000)
    os.close(server)
    with (tmp_path / "postgres.users").open() as users:
        fcntl.flock(users, fcntl.LOCK_SH)  # granted when the guardian has cleared away
    assert not Path(folder).exists()


def _use(folder: Path, answer: Connection) -> None:
    with shared_server(folder) as url:
        answer.send(url)
        multiprocessing.Event().wait()
