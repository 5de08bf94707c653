"""Pages call what is no VM by its own word, and a fleet with such things one of resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.api import rows
from tests.authenticators import signed_in
from tests.pages import vertex_story
from tests.pages.conftest import pages
from tests.pages.html import Page

from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.model.access import Role
from costguard.model.keeper import KeeperKind

_VM = re.compile(r"\bVMs?\b")


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


def shown(deps: Deps, path: str, through: frozenset[KeeperKind] = frozenset()) -> str:
    """The words of a page as an admin sees it; `through`: whose stops the settings allow."""
    rules = replace(deps.rules, stop_through=through)
    given = replace(deps, rules=rules, authenticator=signed_in(Role.ADMIN, "ada@lab.example"))
    page = Page(pages(given).get(path).text)
    assert page.mistakes == []
    return " ".join(page.text.split())


@pytest.fixture
def addresses(database: Database) -> Mapping[str, str]:
    return vertex_story.tell(database)


def test_a_fleet_with_other_things_counts_resources(deps: Deps, addresses: Mapping[str, str]) -> None:
    """The tile, the heading and the column say so; each row says what it is."""
    page = shown(deps, "/")
    assert "5 of 6 resources" in page
    assert "Fleet 6 resources" in page
    assert "Resource Preset" in page
    for kind in ("custom job", "deployed model", "Colab Enterprise runtime", "persistent resource"):
        assert kind in page
    assert not _VM.search(page)


def test_filters_that_leave_vms_alone_count_vms(deps: Deps, addresses: Mapping[str, str]) -> None:
    """The words are those of what the filters leave."""
    page = shown(deps, "/?name=debug")
    assert "1 of 1 VMs" in page
    assert "Fleet 1 VM match" in page
    assert "VM Preset" in page


def test_a_fleet_of_vms_stays_one(deps: Deps, database: Database) -> None:
    """Nothing is called a resource where all are VMs."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        rows.instance(connection, "debug-ada", gce_id="9500")
    page = shown(deps, "/")
    assert "Fleet 1 VM " in page
    assert "VM Preset" in page


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("fine-tune", "custom job"),
        ("llama", "deployed model"),
        ("notes", "Colab Enterprise runtime"),
        ("warm", "persistent resource"),
    ],
)
def test_its_own_page_has_its_own_word(deps: Deps, addresses: Mapping[str, str], name: str, word: str) -> None:
    """Neither it nor the question before its stop calls it a VM, and its keeper has no number."""
    address = addresses[name]
    texts = [shown(deps, address), shown(deps, f"{address}/stop", frozenset({KeeperKind.VERTEX}))]
    assert all(word in text for text in texts)
    assert not any(_VM.search(text) for text in texts)
    assert "Kept by Vertex AI shown by" in texts[0]
