"""Code of jobs has a place when the settings name none."""

from __future__ import annotations

import io
import stat
from contextlib import closing
from pathlib import Path

import pytest
from tests.jobs.archives import packed

from costguard.db.transaction import Database
from costguard.errors import Conflict
from costguard.main.checkpoints import code_archives
from costguard.settings import Settings, validate

CONTENT, SHA256 = packed({"train.py": "print('step 1')"})


def settings(**jobs: str) -> Settings:
    return validate(
        {"watch": {"projects": ["acme-lab"]}, "jobs": jobs, "presets": {"t4": {}}}, {}, Path("costguard.toml")
    )


def test_code_is_kept_in_a_private_folder_next_to_an_sqlite_database(tmp_path: Path) -> None:
    """A first launch needs no bucket, whatever the folder is called."""
    home = tmp_path / "my lab 100%"
    home.mkdir()
    with closing(Database.open(f"sqlite:///{home / 'costguard.db'}")) as database:
        archives = code_archives(settings(), database, {})
        archives.keep(SHA256, io.BytesIO(CONTENT))
        assert archives.find(SHA256).size == len(CONTENT)
    folder = home / "costguard-code"
    assert [(file.name, file.read_bytes()) for file in folder.iterdir()] == [(f"{SHA256}.tar.gz", CONTENT)]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_named_place_is_used_instead(tmp_path: Path) -> None:
    """The folder next to the database is not made."""
    with closing(Database.open(f"sqlite:///{tmp_path / 'costguard.db'}")) as database:
        code_archives(settings(code=f"file://{tmp_path}/shared"), database, {}).keep(SHA256, io.BytesIO(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_replicas_with_postgresql_share_no_folder() -> None:
    """The settings must name a place, and the refusal says so."""
    with (
        closing(Database.open("postgresql://guard@127.0.0.1:1/costguard")) as database,
        pytest.raises(Conflict, match="no place for code") as refused,
    ):
        code_archives(settings(), database, {}).find(SHA256)
    assert "[jobs] code" in refused.value.what_next
