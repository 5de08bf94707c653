"""Links to sign in by and tokens, made where the server runs and asked of a server; where commands find theirs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.api.conftest import deps_of
from tests.authenticators import authenticator_of, begin_session, make_principal, redeem
from tests.cli.typed import Typist
from tests.serving import serving

from costguard.access.rules import Access
from costguard.access.sessions import Sessions
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.errors import CostguardError
from costguard.model.access import Role, Via
from costguard_client import profile
from costguard_client.profile import Profile

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ACCESS = Access(frozenset({"vic@lab.example"}), frozenset(), frozenset())


@pytest.fixture
def here(tmp_path: Path, sqlite_url: str) -> Path:
    """The folder of a server: its settings file, and the database that they name."""
    (tmp_path / "costguard.toml").write_text(
        f'[watch]\nprojects = ["ml-training"]\n[database]\nurl = "{sqlite_url}"\n'
        '[reminders]\ncontact = "lead@lab.example"\n[access]\nviewers = ["vic@lab.example"]\n'
    )
    return tmp_path


@pytest.fixture
def run(here: Path, typist: Typist) -> Run:
    """`costguard ARGUMENTS` in a folder, by default the server's, by someone whose home is below it."""

    def costguard(*arguments: str, folder: Path = here, **environ: str) -> subprocess.CompletedProcess[str]:
        return typist.type(arguments, {"HOME": str(here / "home"), "PATH": "/usr/bin", **environ}, folder)

    return costguard


@pytest.fixture
def url(sqlite_database: Database) -> Iterator[str]:
    """A server on the same database, with its real authenticator."""
    authenticator = authenticator_of(sqlite_database, SystemClock(), ACCESS)
    with serving(
        create_app(replace(deps_of(sqlite_database), clock=SystemClock(), authenticator=authenticator))
    ) as address:
        yield address
    authenticator.close()


def test_a_link_to_sign_in_by(run: Run, here: Path, sqlite_database: Database) -> None:
    """It stands alone in the output, names where people reach the server, and signs in whom it says."""
    done = run("sign-in", "--as", "Vic@lab.example", "--role", "viewer")
    assert (done.returncode, done.stderr.strip()) == (
        0,
        "It signs in vic@lab.example as viewer, once, within ten minutes.",
    )
    head, _, code = done.stdout.strip().rpartition("/")
    assert head == "http://127.0.0.1:8765/sign-in/link"
    assert redeem(sqlite_database, code, SystemClock().now()) == ("vic@lab.example", Role.VIEWER)
    link = json.loads(run("sign-in", "--url", "https://cg.example/", "--json").stdout)
    assert link["url"].startswith("https://cg.example/sign-in/link/")
    assert (link["address"], link["role"], link["expires_at"][-1]) == ("lead@lab.example", "admin", "Z")
    file = here / "costguard.toml"
    file.write_text(file.read_text() + '[server]\nlisten = "127.0.0.1:0"\n')
    assert "Give its address with --url" in run("sign-in").stderr
    file.write_text(file.read_text() + '[sign_in]\nurl = "https://costguard.example.com"\n')
    assert run("sign-in").stdout.startswith("https://costguard.example.com/sign-in/link/")
    elsewhere = run("sign-in", folder=here / "..")
    assert (elsewhere.returncode, "there is no settings file here" in elsewhere.stderr) == (1, True)


def test_a_token_made_where_the_server_runs(run: Run, here: Path, url: str) -> None:
    """It is kept for this command alone to read, is sent to its own server and no other, and opens it."""
    done = run("token", "create", "laptop", "--save", "--days", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert "for lead@lab.example, until" in done.stdout
    assert "admin, instances, jobs, metrics, read, tokens" in done.stdout
    kept = here / "home" / ".config" / "costguard" / "profile.toml"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    elsewhere = here / "home"
    refused = run("token", "list", "--url", url, folder=elsewhere)
    assert (refused.returncode, "COSTGUARD_TOKEN" in refused.stderr) == (1, True)
    kept.write_text(kept.read_text().replace("http://127.0.0.1:8765", url))
    listed = run("token", "list", folder=elsewhere)
    assert (listed.returncode, "laptop" in listed.stdout, "lead@lab.example" in listed.stdout) == (0, True, True)
    kept.chmod(0o640)
    open_to_others = run("token", "list", folder=elsewhere)
    assert (open_to_others.returncode, f"chmod 600 {kept}" in open_to_others.stderr) == (1, True)


WRONG_ELSEWHERE = (
    ("no projects are named", '[database]\nurl = "{url}"\n'),
    ("Slack without its secrets", '[watch]\nprojects = ["ml-training"]\n[slack]\n[database]\nurl = "{url}"\n'),
    ("Google is misspelt", '[watch]\nproject = "ML Training"\n[prices]\nkey = 3\n[database]\nurl = "{url}"\n'),
    ("half a provider", '[sign_in]\noidc_issuer = "https://accounts.google.com"\n[database]\nurl = "{url}"\n'),
    ("open to others", '[server]\nlisten = "0.0.0.0:8765"\n[database]\nurl = "{url}"\n'),
    ("quiet hours", '[reminders]\nquiet_hours = "late"\n[database]\nurl = "{url}"\n'),
)


@pytest.mark.parametrize("text", [text for _, text in WRONG_ELSEWHERE], ids=[name for name, _ in WRONG_ELSEWHERE])
def test_links_and_tokens_need_the_database_alone(
    run: Run, here: Path, sqlite_url: str, sqlite_database: Database, text: str
) -> None:
    """A person who repairs the settings can sign in meanwhile: Slack and Google may be missing or wrong."""
    (here / "costguard.toml").write_text(text.format(url=sqlite_url))
    environ = {"COSTGUARD_SLACK_TOKEN_FILE": "/nowhere", "COSTGUARD_TOKEN": "short"}
    link = run("sign-in", "--as", "ana@lab.example", **environ)
    assert link.returncode == 0, link.stderr
    head, _, code = link.stdout.strip().rpartition("/")
    assert head == "http://127.0.0.1:8765/sign-in/link"
    assert redeem(sqlite_database, code, SystemClock().now()) == ("ana@lab.example", Role.ADMIN)
    made = run("token", "create", "laptop", **environ)
    assert (made.returncode, made.stdout[:4]) == (0, "cgt_"), made.stderr
    assert "laptop" in run("token", "list", **environ).stdout


def test_what_links_and_tokens_rest_on_is_still_checked(run: Run, here: Path) -> None:
    """A wrong list of roles or a wrong database is named by its line, and no link is made."""
    (here / "costguard.toml").write_text('[access]\nadmins = ["@gmail.com"]\n[database]\nurl = "mysql://x"\n')
    done = run("sign-in")
    assert (done.returncode, done.stdout) == (1, "")
    assert "costguard.toml:2: access.admins[0]: given" in done.stderr
    assert "costguard.toml:4: database.url: given" in done.stderr


def test_here_and_there_answer_alike(run: Run, here: Path, url: str) -> None:
    """The database and the server give the same documents; only the secret is new each time."""
    secret = run("token", "create", "first").stdout.strip()
    there = {"folder": here / "home", "COSTGUARD_TOKEN": secret, "COSTGUARD_URL": url}
    (here / "home").mkdir(exist_ok=True)
    arguments = ("token", "create", "second", "--permission", "read", "--days", "0", "--json")
    local, remote = (json.loads(run(*arguments, **more).stdout) for more in ({}, there))
    assert [row["secret"][:4] for row in (local, remote)] == ["cgt_", "cgt_"]
    assert (local["token"]["expires_at"], local["token"]["permissions"]) == (None, ["read"])
    varying = {"id", "made_at", "made_by", "expires_at"}  # a token that makes another ends it with itself
    assert {k: v for k, v in local["token"].items() if k not in varying} == {
        k: v for k, v in remote["token"].items() if k not in varying
    }
    lists = [json.loads(run("token", "list", "--json", **more).stdout) for more in ({}, there)]
    assert [{**row, "as_of": "", "tokens": len(row["tokens"])} for row in lists] == [
        {"as_of": "", "tokens": 3, "next_cursor": None}
    ] * 2
    for made, more in ((local, {}), (remote, there)):
        ended = json.loads(run("token", "revoke", made["token"]["id"], "--json", **more).stdout)
        assert (ended["token"]["is_usable"], set(ended)) == (False, {"as_of", "token"})
    shown = run("token", "list", **there).stdout
    assert shown.count("revoked") == 2
    assert secret not in shown


def test_a_token_of_a_links_session_is_confirmed(run: Run, here: Path, url: str, sqlite_database: Database) -> None:
    """The confirmation is on the server, or with an admin's token; until then the list says that it is not."""
    sessions = Sessions(sqlite_database, SystemClock(), timedelta(hours=1))
    session, _ = begin_session(sqlite_database, sessions, "lead@lab.example", Via.LINK, Role.ADMIN)
    by = make_principal(Role.ADMIN, "lead@lab.example", Via.LINK)
    by = replace(by, link_session=session.id, link_until=session.expires_at)
    office = TokenService(sqlite_database, SystemClock())
    one, two = (office.make(NewToken(name, lasts=timedelta(days=90)), by)[0] for name in ("one", "two"))
    assert run("token", "list").stdout.count("unless") == 2
    confirmed = run("token", "confirm", one.id)
    assert (confirmed.returncode, "is valid until" in confirmed.stdout) == (0, True)
    secret = run("token", "create", "laptop").stdout.strip()
    (here / "home").mkdir(exist_ok=True)
    there = {"folder": here / "home", "COSTGUARD_TOKEN": secret, "COSTGUARD_URL": url}
    token = json.loads(run("token", "confirm", two.id, "--json", **there).stdout)["token"]
    assert (token["is_provisional"], token["is_usable"], token["confirmed_by"]) == (False, True, "lead@lab.example")
    assert "no token" in run("token", "confirm", "nothing").stderr


def test_whose_token_and_what_it_may(run: Run) -> None:
    """A token without a role has its owner's; an owner whom no list names needs one; nobody gets more than the role
    has.
    """
    made = json.loads(run("token", "create", "vic", "--owner", "vic@lab.example", "--json").stdout)["token"]
    assert (made["role"], made["permissions"]) == ("viewer", ["metrics", "read", "tokens"])
    unlisted = run("token", "create", "eve", "--owner", "eve@lab.example")
    assert (unlisted.returncode, "Give --role" in unlisted.stderr) == (1, True)
    assert run("token", "create", "eve", "--owner", "eve@lab.example", "--role", "operator").returncode == 0
    more = run("token", "create", "x", "--role", "viewer", "--permission", "jobs")
    assert (more.returncode, "cannot have: jobs" in more.stderr, more.stdout) == (1, True, "")
    assert run("token", "create", "x", "--permission", "everything").returncode == 2
    assert "`costguard token list` shows them" in run("token", "revoke", "nothing").stderr


def test_what_a_server_refuses(run: Run, here: Path, url: str) -> None:
    """The refusal has its words and the exit codes of every other command: 2 for a wrong request, 3 where nobody
    answers.
    """
    secret = run("token", "create", "narrow", "--owner", "vic@lab.example").stdout.strip()
    (here / "home").mkdir(exist_ok=True)
    there = {"folder": here / "home", "COSTGUARD_TOKEN": secret, "COSTGUARD_URL": url}
    wider = run("token", "create", "x", "--permission", "jobs", **there)
    assert (wider.returncode, "cannot have: jobs" in wider.stderr, "Choose from" in wider.stderr) == (2, True, True)
    assert run("token", "revoke", "nothing", **there).returncode == 1
    assert run("token", "list", **{**there, "COSTGUARD_URL": "http://127.0.0.1:1"}).returncode == 3
    nobody = run("token", "list", **{**there, "COSTGUARD_TOKEN": ""})
    assert (nobody.returncode, "token create NAME --save" in nobody.stderr) == (1, True)


def test_who_is_signed_in(run: Run, here: Path, url: str, sqlite_database: Database) -> None:
    """Listed, and ended by id or all at once; which of the two must be said."""
    secret = run("token", "create", "laptop").stdout.strip()
    (here / "home").mkdir(exist_ok=True)
    there = {"folder": here / "home", "COSTGUARD_TOKEN": secret, "COSTGUARD_URL": url}
    sessions = Sessions(sqlite_database, SystemClock(), timedelta(hours=1))
    one, _ = begin_session(sqlite_database, sessions, "vic@lab.example", Via.LINK, Role.VIEWER, "10.0.0.7")
    begin_session(sqlite_database, sessions, "vic@lab.example", Via.OIDC)
    shown = run("session", "list", **there)
    assert (shown.returncode, shown.stdout.count("vic@lab.example"), "10.0.0.7" in shown.stdout) == (0, 2, True)
    ended = run("session", "end", one.id, **there)
    assert (ended.returncode, f"Ended the session {one.id} of vic@lab.example" in ended.stdout) == (0, True)
    assert run("session", "end", **there).returncode == run("session", "end", one.id, "--all", **there).returncode == 2
    ended_all = json.loads(run("session", "end", "--all", "--address", "vic@lab.example", "--json", **there).stdout)
    assert len(ended_all["sessions"]) == 1
    assert "Nobody is signed in" in run("session", "list", **there).stdout
    assert "There was none." in run("session", "end", "--all", **there).stdout


def test_where_commands_find_their_server(tmp_path: Path) -> None:
    """The given address wins over the environment's file and the profile; a profile's token is for its server alone."""
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = tmp_path / "secret"
    file.write_text(" from-a-file\n")
    assert profile.address_and_token("", {}, "http://here") == ("http://here", "")
    assert profile.address_and_token("", home, "http://here") == ("http://here", "")
    where = profile.save(Profile("https://cg.example/", 'odd "\\ token'), home)
    assert profile.read(home) == Profile("https://cg.example/", 'odd "\\ token')
    for url, environ, expected in (
        ("", {}, ("https://cg.example", 'odd "\\ token')),
        ("https://cg.example/", {}, ("https://cg.example", 'odd "\\ token')),
        ("https://evil.example", {}, ("https://evil.example", "")),
        ("https://cg.example.evil.example", {}, ("https://cg.example.evil.example", "")),
        ("", {"COSTGUARD_TOKEN": " t "}, ("https://cg.example", "t")),
        ("", {"COSTGUARD_TOKEN_FILE": str(file)}, ("https://cg.example", "from-a-file")),
    ):
        assert profile.address_and_token(url, {**home, **environ}, "http://here") == expected
    profile.save(Profile("https://other.example", "t2"), home)
    assert [file_in_folder.name for file_in_folder in where.parent.iterdir()] == ["profile.toml"]
    for text in ("url = 1", "nonsense", 'url = "x"'):
        where.write_text(text)
        with pytest.raises(CostguardError, match="does not hold url"):
            profile.address_and_token("", home, "http://here")
        assert profile.address_and_token("http://given", {**home, "COSTGUARD_TOKEN": "t"}, "") == ("http://given", "t")
    (tmp_path / "empty").touch()
    both = {"COSTGUARD_TOKEN": "t", "COSTGUARD_TOKEN_FILE": str(file)}
    for name, environ in {
        "both set": both,
        "is empty": {"COSTGUARD_TOKEN_FILE": str(tmp_path / "empty")},
        "cannot be read": {"COSTGUARD_TOKEN_FILE": str(tmp_path / "absent")},
    }.items():
        with pytest.raises(CostguardError, match=name):
            profile.address_and_token("http://given", environ, "")
