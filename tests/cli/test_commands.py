"""Every command against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run, serving
from tests.jobs.listing.test_tips import reminded
from tests.jobs.rows.lineage.test_lineage import family
from tests.pages.job_story import tell
from tests.spend.test_executions import launched

from costguard.db.transaction import Database
from costguard.model.keeper import Keeper, KeeperKind

HOUR = timedelta(hours=1)
EVIL = "\x1b]0;owned\x07\x1b[31m[bold]\u202ered"


@pytest.fixture
def fleet(sqlite_database: Database) -> Database:
    unread = [{"scope": "us-east1-b", "code": "unreachable", "reason": "Google did not reach it."}]
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.project(connection, unread=unread, last_complete_at=NOW - HOUR)
        old = rows.instance(connection, "forgotten", gce_id="42")
        rows.lifetime(connection, old, NOW - 14 * HOUR)
        rows.storage(connection, old, NOW - 14 * HOUR)
        rows.measured(connection, old, NOW - 14 * HOUR)
        dear = rows.instance(connection, "dear", **rows.H100, owner="", preset="other")
        rows.lifetime(connection, dear, NOW - HOUR, **rows.H100)
        rows.event(connection, "forgotten", NOW - HOUR, name="forgotten", actor="ada@lab.example")
    return sqlite_database


def test_ps_shows_owners_limits_rates_and_costs(fleet: Database, run: Run) -> None:
    """Ages, owners and how they are known, limits, rates and dollars; the unpriced and the unread in capitals."""
    shown = run("ps")
    assert shown.returncode == 0, shown.stderr
    header, dear, forgotten, *rest = shown.stdout.splitlines()
    assert header.split()[0] == "VM"
    assert "unclaimed" in dear
    assert "unpriced" in dear
    for part in ("t4 x 1", "ada@lab.example (label)", "14 h", "over by 6 h", " 2 h ", "$0.534", "$7.48"):
        assert part in forgotten
    tail = "\n".join(rest)
    assert "2 VMs, 2 running, $0.534 an hour plus what the unpriced VMs cost" in tail
    assert "NOT PRICED: 1 VM." in tail
    assert "  dear: No price is known for a3:core" in tail
    assert "NOT READ: lab, us-east1-b (as of 1 h ago): Google did not reach it." in tail


def test_in_a_pipe_nothing_is_coloured_cut_or_wrapped(sqlite_database: Database, run: Run) -> None:
    """A VM is one line, however long its parts, without control sequences, whatever COLUMNS says."""
    name = "a-very-long-name-" * 3
    with sqlite_database.write() as connection:
        rows.instance(connection, name, owner="someone.with.a.long.name@a-department.of.a.company.example")
    shown = run("ps", COLUMNS="40").stdout
    assert "\x1b" not in shown
    assert [line for line in shown.splitlines() if name in line and "company.example (label)" in line]


@pytest.mark.parametrize("command", [["ps"], ["lifetimes"], ["events"], ["spend", "--by", "owner"], ["show", "42"]])
def test_nothing_from_outside_steers_the_terminal(sqlite_database: Database, run: Run, command: list[str]) -> None:
    """Escapes, markup and marks that turn writing around are shown, not sent and not obeyed."""
    with sqlite_database.write() as connection:
        vm = rows.instance(connection, EVIL, gce_id="42", owner=EVIL, labels={"k": EVIL}, zone=EVIL)
        rows.lifetime(connection, vm, NOW - HOUR, owner=EVIL)
        rows.event(connection, "f", NOW, text=EVIL, actor=EVIL, name=EVIL)
        rows.day(connection, NOW.date(), owner=EVIL, gpu_nanos=1)
    shown = run(*command)
    assert shown.returncode == 0, shown.stderr
    assert r"\x1b]0;owned\x07\x1b[31m[bold]\u202ered" in shown.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.stdout)


def test_json_is_what_the_server_said(fleet: Database, run: Run) -> None:
    """--json gives every figure exactly, with controls in names escaped."""
    for command, key in (("ps", "instances"), ("lifetimes", "lifetimes"), ("events", "events"), ("prices", "prices")):
        assert json.loads(run(command, "--json").stdout)[key], command
    assert json.loads(run("spend", "--json").stdout)["total"]["total"] == "7.476"
    assert json.loads(run("show", "forgotten", "--json").stdout)["instance"]["gce_id"] == "42"


def test_all_pages_are_gathered(sqlite_database: Database, run: Run) -> None:
    """--limit counts over pages; 0 asks for all, and what is left out is said."""
    with sqlite_database.write() as connection:
        for number in range(1203):
            rows.event(connection, f"f{number}", NOW)
    assert len(json.loads(run("events", "--json", "--limit", "0").stdout)["events"]) == 1203
    assert len(json.loads(run("events", "--json", "--limit", "1100").stdout)["events"]) == 1100
    assert "Shown: the latest 50." in run("events").stdout


def test_spend_by_a_label(fleet: Database, run: Run) -> None:
    """VMs without the label are named as such; a label stands alone, and has no bill."""
    shown = run("spend", "--by", "label:experiment")
    assert "(no label)" in shown.stdout, shown.stderr
    assert "label:experiment,is_labelled," in run("spend", "--by", "label:experiment", "--csv").stdout
    assert json.loads(run("spend", "--by", "label:experiment", "--json").stdout)["rows"][0]["value"] is None
    for wrong in (["label:experiment,owner"], ["label:"], ["label:experiment", "--basis", "bill"]):
        assert run("spend", "--by", *wrong).returncode == 2


def test_fleet_and_spend_by_keeper(fleet: Database, run: Run) -> None:
    """A VM shows who keeps it; both commands take a keeper, a cluster or a pool, and spend groups by them."""
    with fleet.write() as connection:
        keeper = Keeper(KeeperKind.GKE, "train", cluster="train", pool="t4", evidence=("goog-gke-node",)).stored()
        node = rows.instance(connection, "node-1", keeper=keeper)
        rows.lifetime(connection, node, NOW - HOUR)
    assert "gke train/t4 (goog-gke-node)" in run("show", "node-1").stdout
    for wanted in (["--keeper", "gke"], ["--cluster", "train"], ["--cluster", "train/t4"]):
        shown = run("ps", *wanted).stdout
        assert ("node-1" in shown, "forgotten" in shown) == (True, False), shown
        assert "$0.53" in run("spend", "--by", "owner", *wanted).stdout
    assert "train/t4" in run("spend", "--by", "pool").stdout
    assert run("spend", "--keeper", "gke", "--cluster", "train").returncode == 2


def test_spend_as_a_table_and_as_csv(fleet: Database, run: Run) -> None:
    """The table ends with the total and what is not in it; CSV is the server's."""
    shown = run("spend", "--by", "owner,preset").stdout
    assert "ada@lab.example" in shown
    assert "$7.48 from 2026-11-01 to 2026-11-20 (UTC)" in shown
    assert "NOT PRICED and not in these amounts: 1 lifetime or disk, such as" in shown
    csv = run("spend", "--from", "2026-11-20", "--csv").stdout
    assert csv.splitlines()[0] == "day,machine_usd,gpu_usd,storage_usd,total_usd,seconds,hours,unpriced"
    by_vm = run("spend", "--by", "owner,vm").stdout
    assert by_vm.split()[:2] == ["Owner", "VM"]
    assert "forgotten" in by_vm
    assert "vm,gce_id" in run("spend", "--by", "vm", "--csv").stdout


def test_show_and_prices(fleet: Database, run: Run) -> None:
    """The commands show a VM charge by charge, and prices with what has none."""
    shown = run("show", "forgotten").stdout
    assert "Ran 2026-11-19 22:00:00 to now: $7.42" in shown
    assert "over by 6 h" in shown
    assert "idle since 2026-11-20 10:00:00: GPU under 5 % for 2 h (max 3 %)" in shown
    assert "gpu:nvidia-tesla-t4" in shown
    prices = run("prices", "--resource", "gpu:").stdout
    assert "$0.35" in prices
    assert "NOT PRICED: 1 lifetime or disk in use now." in prices


def test_exit_codes_tell_what_went_wrong(fleet: Database, run: Run) -> None:
    """0 done, 1 error, 2 wrong usage, 3 no server; each with one message and no traceback, on stderr without --json."""
    for code, arguments in (
        (1, ["show", "nobody"]),
        (1, ["ps", "--url", "ftp://x"]),
        (2, ["ps", "--colour"]),
        (2, ["ps", "--watch", "1", "--json"]),
        (2, ["spend", "--csv", "--json"]),
        (2, ["spend", "--from", "2026-11-20", "--to", "2026-11-01"]),
        (3, ["ps", "--url", "http://127.0.0.1:1"]),
    ):
        done = run(*arguments)
        said, silent = (done.stdout, done.stderr) if "--json" in arguments else (done.stderr, done.stdout)
        assert (done.returncode, silent) == (code, ""), arguments
        assert said
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("ps", "--sort", "cost"),
        ("ps", "--status", "nonsense"),
        ("lifetimes", "--reason", "bored"),
        ("spend", "--from", "yesterday"),
        ("spend", "--from", "2026-02-30"),
        ("spend", "--from", "1850-01-01"),
        ("spend", "--by", "owner,machine"),
        ("events", "--since", "5"),
        ("events", "--until", "1850-01-01"),
        ("events", "--kind", "x" * 600),
    ],
    ids=" ".join,
)
def test_wrong_usage_names_the_option(fleet: Database, run: Run, arguments: tuple[str, ...]) -> None:
    """The option is shown as it was typed, with code 2 and no words of the API, whether command line or server finds
    it.
    """
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[1] in done.stderr
    assert "query." not in done.stderr
    assert "openapi" not in done.stderr


def test_days_and_times_are_taken_as_the_tables_show_them(fleet: Database, run: Run) -> None:
    """A time without a zone is UTC, and a day is its beginning."""
    for since in ("2026-11-20T11:00:00Z", "2026-11-20 11:00:00", "2026-11-20", "2026-11-20T12:00:00+01:00"):
        assert "forgotten" in run("events", "--since", since).stdout, since
    assert "forgotten" not in run("events", "--since", "2026-11-20 11:00:01").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ps", "--preset", "zzz"), "No resource fits. `costguard ps --all` shows"),
        (("events", "--kind", "Nope"), "No event fits. `costguard events` alone shows"),
        (("lifetimes", "--owner", "x"), "No lifetime fits. `costguard lifetimes` alone shows"),
        (("prices", "--region", "mars"), "No price fits. `costguard prices` alone lists"),
    ],
)
def test_nothing_to_show_is_a_sentence(fleet: Database, run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    """No heading over nothing: what fits nothing says how to find what there is."""
    done = run(*arguments)
    assert (done.returncode, done.stdout.splitlines()[0][: len("No ")]) == (0, "No ")
    assert sentence in done.stdout


def test_nothing_recorded_yet_is_a_sentence_too(run: Run) -> None:
    """A new database blames no filter."""
    assert run("events").stdout == "No event is recorded yet.\n"
    assert run("ps").stdout.startswith("No resource is recorded yet.\n")
    assert "0 VMs, 0 running, $0.00 an hour" in run("ps").stdout


def test_the_token_comes_from_the_environment(sqlite_database: Database, run: Run) -> None:
    """COSTGUARD_TOKEN opens a server that asks for one; without it the error says so."""
    with serving(sqlite_database, token="s3cret") as address:
        refused = run("ps", "--url", address)
        assert (refused.returncode, "COSTGUARD_TOKEN" in refused.stderr) == (1, True)
        assert run("ps", "--url", address, COSTGUARD_TOKEN="s3cret").returncode == 0


def test_a_reader_that_goes_away_is_no_error(fleet: Database, url: str) -> None:
    """`costguard ps | head -0` ends quietly."""
    command = f'{sys.executable} -c "from costguard.cli.app import main; main()" ps --url {url} | true'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


def test_what_shows_tables_loads_no_server() -> None:
    """Starting `costguard ps` imports neither the database, nor the web, nor Google."""
    heavy = ("sqlalchemy", "fastapi", "google", "pydantic", "uvicorn", "alembic")
    code = f"import sys, costguard.cli.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_config_example_prints_what_config_check_explains(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A missing settings file is one clear error; the example names every key."""
    assert "[watch]" in run("config", "example").stdout
    missing = tmp_path_factory.mktemp("config") / "none.toml"
    done = run("config", "check", "--config", str(missing))
    assert (done.returncode, str(missing) in done.stderr) == (1, True)


def test_goodput_says_what_is_kept_of_what_is_paid(sqlite_database: Database, run: Run) -> None:
    """The command prints one row a group, and the sum of all; without jobs it says so."""
    assert run("goodput").stdout == "0 jobs from 2026-11-01 to 2026-11-20 (UTC)\n"
    tell(sqlite_database)
    shown = run("goodput", "--by", "owner").stdout
    header, *lines = shown.splitlines()
    assert "Kept %" in header
    assert "Useful GPU-hour" in header
    assert any(line.startswith("All") and "$" in line for line in lines)
    detail = json.loads(run("job", "j7k2m9q4", "--json").stdout)
    share = detail["goodput"]["kept_percent_of_paid"]
    assert f"goodput {share}% of the paid time kept (kept " in " ".join(run("job", "j7k2m9q4").stdout.split())
    assert run("goodput", "--by", "moon").returncode == 2


def test_a_job_says_how_far_it_is_and_what_is_left(sqlite_database: Database, run: Run) -> None:
    """The rest is in hours of running and dollars, with their range."""
    tell(sqlite_database)
    shown = " ".join(run("job", "j7k2m9q4").stdout.split())
    assert "progress step 30,600 of 51,000 (60 %), 2.8 steps a second, loss 2.475, eval_loss 2.51" in shown
    assert "left about " in shown
    assert " of running (" in shown


def test_diagnose_says_what_bounds_a_job(sqlite_database: Database, run: Run) -> None:
    """The verdict, its numbers, the advice and what it saves; the job itself has one line of it."""
    tell(sqlite_database)
    shown = run("diagnose", "j7k2m9q4").stdout
    for part in (
        "is bound by its input (too few processors)",
        "42%  without a kernel",
        "Advice: a data frame is indexed by rows in Rows.__getitem__ (data.py:14)",
        "prepare the data once and store it",
        "Saves: up to",
    ):
        assert part in " ".join(shown.split()) or part in shown
    page = " ".join(run("job", "j7k2m9q4").stdout.split())
    assert "bound by its input (too few processors), 42% of the time" in page
    assert "is not known yet. Its command has not started yet." in run("diagnose", "b3waits7").stdout
    assert run("diagnose", "nothing1").returncode == 1


def test_profile_shows_functions_cures_and_the_change(sqlite_database: Database, run: Run, tmp_path: Path) -> None:
    """The job compared with is the last one of its script; a file for speedscope is written on request."""
    tell(sqlite_database)
    shown = " ".join(run("profile", "j7k2m9q4").stdout.split())
    for part in (
        "3 windows, 30 s in all; 66% of it waits for data, or prepares it",
        "A data frame is indexed by rows in Rows.__getitem__ (data.py:14)",
        "66.0% 66.0% _MultiProcessingDataLoaderIter._next_data",
        "Change: in points of the time, since job g5failed.",
    ):
        assert part in shown
    assert "Change" not in run("profile", "j7k2m9q4", "--compare", "none").stdout
    assert "is not known. No profile has come" in " ".join(run("profile", "b3waits7").stdout.split())
    assert run("profile", "j7k2m9q4", "--compare", "nothing1").returncode == 1
    file = tmp_path / "profile.json"
    assert run("profile", "j7k2m9q4", "--speedscope", str(file)).returncode == 0
    assert json.loads(file.read_text())["exporter"] == "costguard"
    assert run("profile", "j7k2m9q4", "--speedscope", str(tmp_path / "no" / "file")).returncode == 1


def test_alike_compares_the_machines_of_a_jobs_script(sqlite_database: Database, run: Run) -> None:
    """A single machine comes with the command that gets another; an unknown job is an error."""
    tell(sqlite_database)
    shown = run("alike", "j7k2m9q4").stdout
    assert "30,600" in shown
    assert "costguard launch --like j7k2m9q4 PRESET" in " ".join(shown.split())
    assert run("alike", "nothing1").returncode == 1


def test_lineage_and_executions_add_jobs_up(sqlite_database: Database, run: Run) -> None:
    """The tree with its sums, and each execution with its jobs; what is not there is an error, or is said."""
    with sqlite_database.write() as connection:
        family(connection)
        launched(connection, "j1", 1, "f1")
    shown = run("lineage", "tune1").stdout
    assert "(this job)" in shown
    assert "with what it started from" in shown
    assert run("lineage", "nothing1").returncode == 1
    assert "f1" in run("executions").stdout
    assert "j1" in run("executions", "--label", "flyte-execution=f1").stdout
    assert "No job and no VM has a label" in run("executions", "--label", "argo-workflow").stdout
    assert run("executions", "--label", "=f1").returncode == 2


def test_savings_of_a_quarter_say_which_tips_were_followed(sqlite_database: Database, run: Run) -> None:
    """The count, each followed tip with its evidence, and what Spot and stops saved; no quarter is an error."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        reminded(connection, "train-7", 5)
    shown = " ".join(run("savings", "--quarter", "2026-Q4").stdout.split())
    assert "2026-Q4 (UTC): 1 of 1 tips were followed." in shown
    assert "train-7" in shown
    assert "stopped by ada@lab.example" in shown
    assert "saved by tips $12.72" in shown
    assert "--quarter: '2026-Q9' is no quarter: write 2026-Q4." in run("savings", "--quarter", "2026-Q9").stderr


def test_show_says_first_why_a_vm_was_not_stopped(fleet: Database, run: Run) -> None:
    """Right under its name, before anything else about it."""
    first, second, *_ = run("show", "forgotten").stdout.splitlines()
    assert first.startswith("forgotten  lab / us-central1-a")
    assert second == 'Not stopped: preset t4 only reminds (presets.t4.when_unanswered = "stop" would change that).'
