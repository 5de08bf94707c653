"""The command `config check` warns where the settings are right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.settings.reading import read

from costguard.settings import warnings

SMALLEST = '[watch]\nprojects = ["ml-training"]\n'


def warned(tmp_path: Path, text: str = "", **environ: str) -> list[str]:
    settings = read(tmp_path, SMALLEST + text, **environ)
    return warnings(settings, tmp_path / "costguard.toml", environ)


def test_nothing_is_wrong_with_the_smallest_file(tmp_path: Path) -> None:
    """Most people see no warning."""
    assert warned(tmp_path) == []
    assert warned(tmp_path, '[access]\nviewers = ["@example.com"]\nadmins = ["ana@example.com"]\n') == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_secrets_that_others_can_read_are_named_with_the_command(tmp_path: Path) -> None:
    """A file that a variable names, the database's address among them; not its content."""
    file = tmp_path / "token"
    file.write_text("a-token-of-many-letters")
    file.chmod(0o640)
    (warning,) = warned(tmp_path, COSTGUARD_TOKEN_FILE=str(file))
    assert (
        warning
        == f"COSTGUARD_TOKEN_FILE: other users can read the secret in {file} (mode 0640): run `chmod 600 {file}`."
    )
    url = tmp_path / "url"
    url.write_text("postgresql://costguard:hidden@db/costguard")
    url.chmod(0o604)
    (warning,) = warned(tmp_path, COSTGUARD_DATABASE_URL_FILE=str(url))
    assert "hidden" not in warning
    url.chmod(0o600)
    assert warned(tmp_path, COSTGUARD_DATABASE_URL_FILE=str(url)) == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_settings_that_anybody_may_change_make_anybody_an_admin(tmp_path: Path) -> None:
    """The reading of them is no harm: no secret stands there."""
    settings = read(tmp_path, SMALLEST)
    file = tmp_path / "costguard.toml"
    file.chmod(0o644)
    assert warnings(settings, file, {}) == []
    file.chmod(0o646)
    (warning,) = warnings(settings, file, {})
    assert f"chmod o-w {file}" in warning


def test_people_in_several_lists_are_named(tmp_path: Path) -> None:
    """The highest list counts, whatever the other one was meant to say; cases do not differ."""
    texts = warned(
        tmp_path,
        '[access]\nviewers = ["ana@example.com", "Ana@example.com"]\noperators = ["ben@example.com"]\n'
        'admins = ["ANA@example.com", "ben@example.com"]\n',
    )
    assert texts == [
        "access.viewers: ana@example.com is listed more than once.",
        "access.viewers: ana@example.com is also listed in access.admins, which counts: list it once.",
        "access.operators: ben@example.com is also listed in access.admins, which counts: list it once.",
    ]
