"""The page service/docs/security.md is true to the code."""

from __future__ import annotations

import inspect
import re
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.in_one_thread import in_one_thread
from tests.web.test_routes import AGENTS, EVENTS, House, table

from costguard.access import links, sessions, tokens
from costguard.db.transaction import Database
from costguard.settings import VARIABLES
from costguard.settings.access import SignInSection

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "service/docs/security.md"
ATTEMPT = "cg-j7k2m9q4-1"


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    house = House(sqlite_database)
    with in_one_thread(house.app) as house.client:
        yield house
    house.authenticator.close()


def _roles() -> dict[str, list[str]]:
    """Returns, by file, the permissions that the page gives a reason for."""
    rows: dict[str, list[str]] = {}
    file = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if named := re.match(r"\[`deploy/(iam-role[a-z-]*\.yaml)`\]", line):
            file = named[1]
        elif file and (row := re.match(r"\| `([a-zA-Z.]+)` \| (.+) \|", line)):
            assert len(row[2]) > 5, f"{row[1]} has no reason"
            rows.setdefault(file, []).append(row[1])
    return rows


def test_every_permission_has_its_reason() -> None:
    """The page names the permissions of each role's file, all of them and no other."""
    named = _roles()
    files = sorted((ROOT / "deploy").glob("iam-role*.yaml"))
    assert set(named) == {file.name for file in files}
    for file in files:
        role: Any = yaml.safe_load(file.read_text("utf-8"))
        assert sorted(named[file.name]) == sorted(role["includedPermissions"]), file.name


def test_links_of_the_page_lead_somewhere_and_the_readme_to_it() -> None:
    """Relative links to files of the repository."""
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / target).exists(), target
    assert "(service/docs/security.md)" in (ROOT / "README.md").read_text("utf-8")


def test_an_agents_token_opens_the_events_of_its_attempt_and_nothing_else(house: House) -> None:
    """Every method of every route, pages too; the events of another attempt as well."""
    shown = {"Authorization": f"Bearer {AGENTS.of(ATTEMPT)}"}
    own, other = EVENTS.format(attempt=ATTEMPT), EVENTS.format(attempt="cg-j7k2m9q4-2")
    assert house.client.request("POST", own, json={"events": []}, headers=shown).status_code == 200
    assert house.client.request("POST", other, json={"events": []}, headers=shown).status_code == 401
    tried = 0
    for route in table(house.app):
        if route.needs is None and route.path not in {"/openapi.json", "/api/v1", "/api/v1/me"}:
            continue  # open to strangers, or what was tried above
        answer = house.client.request(route.method, route.address, headers={**shown, "Accept": "application/json"})
        assert answer.status_code == 401, route
        tried += 1
    assert tried > 50
    assert house.client.request("GET", "/readyz", headers=shown).json().keys() == {"status"}


def test_an_agents_token_is_made_from_the_key_and_the_name_alone() -> None:
    """Nothing has to be stored; another attempt has another one."""
    assert AGENTS.of(ATTEMPT) == AGENTS.of(ATTEMPT) != AGENTS.of("cg-j7k2m9q4-2")
    assert len(bytes.fromhex(AGENTS.of(ATTEMPT))) * 8 == 256


def test_the_times_on_the_page_are_those_of_the_code() -> None:
    """The times are how long links, sessions and tokens last."""
    text = PAGE.read_text("utf-8")
    assert "Works once, within 10 minutes." in text
    assert timedelta(minutes=10) == links.GOOD_FOR
    assert "after `sign_in.session`, 12 hours" in text
    assert SignInSection().session == timedelta(hours=12)
    assert "within 24 hours" in text
    assert timedelta(hours=24) == tokens.PROVISIONAL
    assert "90 days unless said otherwise" in text
    assert tokens.NewToken("x").lasts == timedelta(days=90)


def test_secrets_are_256_random_bits() -> None:
    """The default that sessions are made with gives no two alike, and 32 bytes each."""
    made = {_default(sessions.Sessions, "new_secret")() for _ in range(50)}
    assert len(made) == 50
    assert {len(urlsafe_b64decode(f"{token}=")) for token in made} == {32}
    assert len(urlsafe_b64decode(f"{secrets.token_urlsafe(32)}=")) * 8 == 256


def test_every_secret_of_the_environment_is_a_credential_on_the_page() -> None:
    """A new one without a row here has nobody who says what it can do."""
    rows = {
        "COSTGUARD_TOKEN": "`COSTGUARD_TOKEN`, the master token",
        "COSTGUARD_DATABASE_URL": "| The database |",
        "COSTGUARD_SLACK_TOKEN": "| Slack bot token, app-level token |",
        "COSTGUARD_SLACK_APP_TOKEN": "| Slack bot token, app-level token |",
        "COSTGUARD_SLACK_SIGNING_SECRET": "| Slack signing secret |",
        "COSTGUARD_MLFLOW_TOKEN": "| Secrets of experiment trackers |",
        "COSTGUARD_WANDB_API_KEY": "| Secrets of experiment trackers |",
        "COSTGUARD_OIDC_CLIENT_SECRET": "| OpenID Connect client secret |",
        "COSTGUARD_WEBHOOK_NAME_SECRET": "| Webhook secrets |",
    }
    assert set(rows) == set(VARIABLES) - {"COSTGUARD_CONFIG"}
    text = PAGE.read_text("utf-8")
    assert [row for row in rows.values() if row not in text] == []


def _default(callable_: type, name: str) -> Any:
    return inspect.signature(callable_).parameters[name].default
