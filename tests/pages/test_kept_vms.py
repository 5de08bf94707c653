"""The Fleet page says why a VM that something keeps has no stop, without a row that is a page long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from tests.api import rows
from tests.authenticators import FixedAuthenticator, make_principal
from tests.pages.conftest import pages
from tests.pages.html import Page

from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.model.keeper import KeeperKind

GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        vm = rows.instance(connection, "trainer-x1", origin=GROUP)
        rows.lifetime(connection, vm, rows.EARLIER)
    return sqlite_database


def fleet(deps: Deps, through: Collection[KeeperKind]) -> Page:
    """The page as the VM's owner sees it; `through` are the keepers whose stops the settings allow."""
    rules = replace(deps.rules, stop_through=frozenset(through))
    owner = FixedAuthenticator(make_principal(address="ada@lab.example"))
    return Page(pages(replace(deps, rules=rules, authenticator=owner)).get("/").text)


def folded(page: Page) -> list[str]:
    return [tag for tag, given in page.tags if "cannot" in str(given.get("class", "")).split()]


def test_the_reason_is_folded_in_the_row(deps: Deps) -> None:
    """The command is a click away."""
    page = fleet(deps, ())
    assert page.mistakes == []
    assert folded(page) == ["details"]
    assert "No stop … of trainer-x1" in page.text
    assert "gcloud compute instance-groups managed stop-instances trainers --instances trainer-x1" in page.text


def test_a_vm_that_may_be_stopped_has_no_reason(deps: Deps) -> None:
    """The group's own stop is allowed here, and the row offers it."""
    page = fleet(deps, (KeeperKind.GROUP,))
    assert folded(page) == []
    assert "Stop trainer-x1" in page.text
