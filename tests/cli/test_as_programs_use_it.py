"""The command line as scripts, shells and poor terminals use it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run
from tests.pages import job_story

import costguard
from costguard.db.transaction import Database
from costguard_client import profile
from costguard_client.profile import Profile

HOUR = timedelta(hours=1)


@pytest.fixture
def fleet(sqlite_database: Database) -> Database:
    job_story.tell(sqlite_database)
    with sqlite_database.write() as connection:
        for name, owner in (("trainer-3", "ana@lab.example"), ("trainer-für-zoë", "zoë@lab.example"), ("eval", "")):
            rows.lifetime(connection, rows.instance(connection, name, owner=owner), NOW - 9 * HOUR)
        rows.lifetime(
            connection, rows.instance(connection, "gone", gone_at=NOW - HOUR), NOW - 9 * HOUR, ended_at=NOW - HOUR
        )
    return sqlite_database


@pytest.mark.parametrize(
    ("arguments", "code", "message", "next_step"),
    [
        (["job", "nosuch"], 1, "There is no job 'nosuch'.", "`costguard jobs --all`"),
        (["show", "nosuch"], 1, "No VM or other resource nosuch was ever seen.", "`costguard ps --all`"),
        (["spend", "--from", "soon"], 2, "'soon' is not a UTC day", "`costguard spend --help`"),
        (["ps", "--nosuch"], 2, "No such option", "`costguard ps --help`"),
        (["nosuch"], 2, "No such command", "`costguard --help`"),
        (["spend", "--by", "moon"], 2, "'moon' is none of", "`costguard spend --help`"),
    ],
)
def test_an_error_is_an_object_with_json(
    fleet: Database, run: Run, arguments: list[str], code: int, message: str, next_step: str
) -> None:
    """The object is on standard output, with the exit code that the same error has without --json."""
    done = run(*arguments, "--json")
    error = json.loads(done.stdout)["error"]
    assert message in error["message"]
    assert next_step in error["next"]
    assert (done.returncode, error["exit_code"], done.stderr) == (code, code, "")
    assert run(*arguments).returncode == code


def test_no_server_is_an_object_with_json(run: Run) -> None:
    """A script tells a server that is away from an error by the exit code 3."""
    done = run("ps", "--json", COSTGUARD_URL="http://127.0.0.1:9")
    assert json.loads(done.stdout)["error"]["exit_code"] == done.returncode == 3


def test_json_behind_two_dashes_belongs_to_the_job(fleet: Database, run: Run) -> None:
    """The job's own command may take --json: errors are then for people."""
    done = run("launch", "nosuch", "--", "train", "--json")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr


@pytest.mark.parametrize("arguments", [["ps"], ["show", "trainer-für-zoë"], ["jobs"], ["events"], ["spend", "--csv"]])
def test_output_that_takes_ascii_alone_ends_no_command(fleet: Database, url: str, arguments: list[str]) -> None:
    """Other characters are shown by their numbers, as on a serial console, or in cron with LANG=C."""
    code = "from costguard.cli.entry import main; main()"
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "COSTGUARD_URL": url}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.isascii()


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed_without_loading_commands(flag: str) -> None:
    """It takes no longer than Python itself: neither typer nor rich is imported."""
    code = (
        f"import sys; sys.argv = ['costguard', {flag!r}]; from costguard.cli.entry import main; main();"
        " print([name for name in ('typer', 'rich', 'http.client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"costguard {costguard.__version__}\n[]\n"


@pytest.mark.parametrize(
    ("words", "suggested", "left_out"),
    [
        ("costguard stop ", {"trainer-3", "eval"}, {"gone"}),
        ("costguard show tra", {"trainer-3"}, {"eval"}),
        ("costguard job ", {"j7k2m9q4"}, set()),
        ("costguard events --job j7", {"j7k2m9q4"}, set()),
    ],
)
def test_names_are_completed_from_the_server(
    fleet: Database, run: Run, words: str, suggested: set[str], left_out: set[str]
) -> None:
    """The names are those that bash requests when the user presses Tab."""
    count = len(words.split(" ")) - 1
    done = run(_COSTGUARD_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(count))
    names = set(done.stdout.split())
    assert suggested <= names
    assert not left_out & names


def test_completion_without_a_server_says_nothing(run: Run) -> None:
    """An error would end up in the line that the user types."""
    environ = {"COSTGUARD_URL": "http://127.0.0.1:9", "COMP_WORDS": "costguard stop ", "COMP_CWORD": "2"}
    done = run(_COSTGUARD_COMPLETE="complete_bash", **environ)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_last_days_are_the_servers(fleet: Database, run: Run) -> None:
    """The days go by its clock, today included: 7d ends today, also for a script on a machine with another date."""
    today = NOW.date()
    for span, days in (("1d", 1), ("7d", 7), ("2w", 14)):
        answer = json.loads(run("spend", "--last", span, "--json").stdout)
        assert (answer["from"], answer["to"]) == ((today - timedelta(days=days - 1)).isoformat(), today.isoformat())
    assert json.loads(run("enforcement", "--last", "7d", "--json").stdout)["to"] == today.isoformat()


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["spend", "--last", "7"], "is not a span"),
        (["spend", "--last", "0d"], "is not a span"),
        (["spend", "--last", "12h"], "less than a day"),
        (["spend", "--last", "7d", "--from", "2026-11-01"], "leave those out"),
        (["events", "--last", "7d", "--since", "2026-11-01"], "leave one of them out"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(fleet: Database, run: Run, arguments: list[str], wrong: str) -> None:
    """The refusal has the exit code of wrong usage."""
    done = run(*arguments)
    assert done.returncode == 2
    assert wrong in " ".join(done.stderr.replace("│", " ").split())


def test_events_are_searched_as_on_the_page(fleet: Database, run: Run) -> None:
    """The search is by actor, by words of the text, and by time."""
    with fleet.write() as connection:
        rows.event(connection, "a", NOW - HOUR, text="ana asked to keep trainer-3.", actor="ana@lab.example")
        rows.event(connection, "b", NOW - 30 * HOUR, text="trainer-3 was made.", actor="ben@lab.example")
    for options, expected in (
        (["--who", "ana@"], ["ana asked to keep trainer-3."]),
        (["--words", "was made"], ["trainer-3 was made."]),
        (["--last", "12h"], ["ana asked to keep trainer-3."]),
        (["--last", "2d", "--who", "ben"], ["trainer-3 was made."]),
        (["--words", "no such words"], []),
    ):
        events = json.loads(run("events", *options, "--json").stdout)["events"]
        assert [event["text"] for event in events] == expected, options


def test_a_profile_on_windows(tmp_path: Path) -> None:
    """%APPDATA% holds it where there is neither HOME nor XDG_CONFIG_HOME."""
    windows = {"APPDATA": str(tmp_path / "Roaming")}
    where = profile.save(Profile("https://cg.example", "t"), windows)
    assert where == tmp_path / "Roaming" / "costguard" / "profile.toml"
    assert profile.read(windows) == Profile("https://cg.example", "t")
    assert profile.path({"HOME": "/home/ana", **windows}) == where
    assert profile.path({"HOME": "/home/ana"}) == Path("/home/ana/.config/costguard/profile.toml")
    assert profile.path({}) is None
    assert stat.S_IMODE(where.stat().st_mode) == 0o600


def test_the_examples_project_is_refused(run: Run, tmp_path: Path) -> None:
    """A user who has not named a project yet learns it from the check, not from Google's refusals."""
    settings = tmp_path / "costguard.toml"
    settings.write_text(run("config", "example").stdout)
    done = run("config", "check", "--config", str(settings))
    assert done.returncode == 1
    assert 'given "my-project", expected the id of your own project' in done.stderr
    settings.write_text(settings.read_text().replace('projects = ["my-project"]', 'projects = ["ml-lab-prod"]'))
    assert run("config", "check", "--config", str(settings)).returncode == 0


def test_config_check_warns_of_what_serve_would_refuse(run: Run, tmp_path: Path) -> None:
    """A database that others can read, with the command; the settings themselves are right, and the exit code is 0."""
    file, settings = tmp_path / "ledger.db", tmp_path / "costguard.toml"
    file.touch(0o600)
    settings.write_text(f'[watch]\nprojects = ["ml-training"]\n[database]\nurl = "sqlite:///{file}"\n')
    quiet = run("config", "check", "--config", str(settings))
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "The settings are correct.\n", "")
    file.chmod(0o644)
    warned = run("config", "check", "--config", str(settings))
    assert (warned.returncode, f"chmod 600 {file}" in warned.stderr) == (0, True)
    checked = json.loads(run("config", "check", "--config", str(settings), "--json").stdout)
    assert (checked["ok"], len(checked["warnings"])) == (True, 1)


def test_mcp_without_its_libraries_says_what_to_install() -> None:
    """The message names the first that is missing."""
    command = "import sys; sys.modules['mcp_types'] = None; from costguard.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "mcp"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "costguard: The library for the Model Context Protocol is not installed.",
        "Run `pip install 'costguard[mcp]'`.",
    ]
