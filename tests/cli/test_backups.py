"""Backups from the command line: without a server, and with exit codes that scripts can use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert
from tests.api.rows import NOW
from tests.cli.test_serve import settings, typed
from tests.cli.typed import Typist

from costguard.daemon.lease_keeper import LEASE
from costguard.db import lease, migrate
from costguard.db.tables import events
from costguard.db.transaction import Database
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import UnknownVm
from costguard.model.instance import InstanceKey, Status

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(typist: Typist, tmp_path: Path) -> Run:
    """`costguard db COMMAND` of an installation with an empty ledger."""
    config = settings(tmp_path, "http://127.0.0.1:9")
    migrate.upgrade(f"sqlite:///{tmp_path}/costguard.db")
    return partial(typed, typist, "db", config=config)


def test_a_backup_is_written_verified_and_restored(run: Run, tmp_path: Path) -> None:
    """Each says what it did, and the restore what is to be expected; with --json, as values."""
    file = tmp_path / "backup.zip"
    made = run("backup", str(file))
    assert made.returncode == 0, made.stderr
    assert f"revision {migrate.head()}" in made.stdout
    verified = run("verify", str(file), "--json")
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["ok"] is True
    restored = run("restore", str(file))
    assert restored.returncode == 0, restored.stderr
    assert "generation 2" in restored.stdout
    assert "costguard.db.replaced-" in restored.stdout
    assert "costguard db unknown" in restored.stdout
    again = json.loads(run("restore", str(file), "--json").stdout)
    assert again["generation"] == 3
    assert run("verify").returncode == 0


def test_what_cannot_be_done_exits_1_and_says_what_to_do(run: Run, tmp_path: Path) -> None:
    """A file that is there, a file that is none, a guard that acts."""
    file = tmp_path / "backup.zip"
    assert run("backup", str(file)).returncode == 0
    twice = run("backup", str(file))
    assert (twice.returncode, "Name another file" in twice.stderr) == (1, True)
    (tmp_path / "notes.txt").write_text("nothing")
    assert run("verify", str(tmp_path / "notes.txt")).returncode == 1
    with closing(Database.open(f"sqlite:///{tmp_path}/costguard.db")) as database:
        assert lease.acquire(database, LEASE, "host:1", timedelta(minutes=5)) is not None
    refused = run("restore", str(file))
    assert refused.returncode == 1
    assert "host:1" in refused.stderr
    assert "Stop it" in refused.stderr


def test_a_ledger_that_is_not_sound_exits_1(run: Run, tmp_path: Path) -> None:
    """The rule that is broken stands there."""
    with closing(Database.open(f"sqlite:///{tmp_path}/costguard.db")) as database, database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO daily_totals (day, project, preset, provisioning_model, machine_nanos, gpu_nanos, "
            "storage_nanos, seconds) VALUES ('2026-11-20', 'p', 't4', 'spot', 1, 0, 0, 0)"
        )
    verified = run("verify")
    assert verified.returncode == 1
    assert "WRONG  charges of each day are its daily total" in verified.stdout


def test_unknown_vms_are_listed_and_decided_on(run: Run, tmp_path: Path) -> None:
    """An admin of the server says what becomes of each; nothing is deleted without --yes or an answer."""
    assert run("unknown").stdout == "The ledger has a launch for every VM with this installation's labels.\n"
    vm = UnknownVm(
        InstanceKey("acme", "71"), "cg-j1-1", "us-central1-a", "j1", 1, "", Status.RUNNING, "job j1 is lost", NOW
    )
    with closing(Database.open(f"sqlite:///{tmp_path}/costguard.db")) as database:
        with database.write() as connection:
            unknown_vms.save(connection, [vm])
        assert "acme/cg-j1-1 in us-central1-a, running" in run("unknown").stdout
        assert run("adopt", "acme/cg-j1-1").returncode == 0
        (item,) = json.loads(run("unknown", "--json").stdout)["items"]
        assert item["wanted"] == "adopt"
        assert item["wanted_by"]
        assert run("delete-vm", "acme/cg-j1-1", "--yes").returncode == 0
        (item,) = json.loads(run("unknown", "--json").stdout)["items"]
        assert item["wanted"] == "delete"
    missing = run("adopt", "acme/other")
    assert missing.returncode == 1
    assert "db unknown" in missing.stderr


def test_old_events_are_archived_listed_and_read(run: Run, tmp_path: Path) -> None:
    """The settings say how old; a second run finds nothing, the list names the file, and its rows can be printed."""
    refused = run("archive")
    assert (refused.returncode, "Say in [retention] what to archive" in refused.stderr) == (1, True)
    with (tmp_path / "costguard.toml").open("a") as settings_file:
        settings_file.write(f'\n[retention]\nevents = "90d"\nfolder = "{tmp_path}/archive"\n')
    rows = [
        {"key": f"test/{days}", "kind": "InstanceStopped", "text": "vm-1 stopped.", "data": {}}
        | dict.fromkeys(("occurred_at", "recorded_at"), NOW - timedelta(days=days))
        for days in (400, 200, 0)
    ]
    with closing(Database.open(f"sqlite:///{tmp_path}/costguard.db")) as database, database.write() as connection:
        connection.execute(insert(events), rows)
    done = run("archive")
    assert done.returncode == 0, done.stderr
    assert "2 rows archived in 1 file" in done.stdout
    assert json.loads(run("archive", "--json").stdout)["events"] == {"files": 0, "rows": 0}
    (file,) = json.loads(run("archive", "--list", "--json").stdout)["items"]
    printed = run("archive", "--read", file["file"]).stdout.splitlines()
    assert [json.loads(line)["key"] for line in printed] == ["test/400", "test/200"]
