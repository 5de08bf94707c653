"""Migrations that do not exist yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.upgrades.later import with_later_migrations


@pytest.fixture(scope="session")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this version's migrations and the made-up ones after them."""
    return with_later_migrations(tmp_path_factory.mktemp("later"))
