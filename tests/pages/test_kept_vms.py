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
        vm = rows.instance(connection, "trainer-x1", gce_id="4711", origin=GROUP)
        rows.lifetime(connection, vm, rows.EARLIER)
    return sqlite_database


def shown(deps: Deps, through: Collection[KeeperKind], path: str = "/") -> Page:
    """A page as the VM's owner sees it, of the fleet by default; `through`: whose stops the settings allow."""
    rules = replace(deps.rules, stop_through=frozenset(through))
    owner = FixedAuthenticator(make_principal(address="ada@lab.example"))
    return Page(pages(replace(deps, rules=rules, authenticator=owner)).get(path).text)


def folded(page: Page) -> list[str]:
    return [tag for tag, given in page.tags if "cannot" in str(given.get("class", "")).split()]


def test_the_reason_is_folded_in_the_row(deps: Deps) -> None:
    """The command is a click away."""
    page = shown(deps, ())
    assert page.mistakes == []
    assert folded(page) == ["details"]
    assert "No stop … of trainer-x1" in page.text
    assert "gcloud compute instance-groups managed stop-instances trainers --instances trainer-x1" in page.text


def test_a_vm_that_may_be_stopped_has_no_reason(deps: Deps) -> None:
    """The group's own stop is allowed here, and the row offers it."""
    page = shown(deps, (KeeperKind.GROUP,))
    assert folded(page) == []
    assert "Stop trainer-x1" in page.text


def test_the_question_before_a_groups_stop_says_what_the_group_does(deps: Deps) -> None:
    """The words are those of the question in Slack, and name the autoscaler that may prevent it."""
    page = shown(deps, (KeeperKind.GROUP,), "/vm/lab/4711/stop")
    assert "Stop trainer-x1?" in page.text
    assert (
        "trainer-x1 will be stopped by its group trainers, whose size falls by one; if it has an autoscaler, nothing "
        "is stopped. Its disks stay and are billed"
    ) in page.text
    assert "asks Google to stop it now" not in page.text
