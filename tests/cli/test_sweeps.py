"""`costguard sweep` against a real server: a file is launched, listed, shown, cancelled and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run, runner, serving
from tests.cli.typed import Typist
from tests.jobs.job_service import JobSetup, priced
from tests.sweeps import sweep_story

from costguard.cli import sweep_file
from costguard.cli.job import file as job_file
from costguard.cli.server import WrongUsage
from costguard.db.transaction import Database

FILE = """
name = "learning rate"
at_once = 2
ceiling = 40

[grid]
lr = [1e-4, 3e-4]
seed = [1, 2]

[launch]
preset = "t4"
command = "python train.py --lr {lr} --seed {seed}"
checkpoint = "gs://lab/run/{lr}-{seed}"
local = "/data/out"
resume = "--from_checkpoint {checkpoint}"
env = { EPOCHS = 3 }
metric = 'val_loss (\\S+)'
"""
ADA = {"COSTGUARD_OWNER": "ada@lab.example"}


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    return JobSetup(priced(sqlite_database))


@pytest.fixture
def run(office: JobSetup, typist: Typist) -> Iterator[Run]:
    with serving(office.database, office=office) as url:
        yield runner(url, typist)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(FILE)
    return path


def changed(file: Path, old: str, new: str) -> Path:
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    return file


def test_file_is_launched_without_naming_the_subcommand(run: Run, file: Path) -> None:
    """Numbers go into the command as they were written."""
    done = run("sweep", str(file), **ADA)
    assert done.returncode == 0, done.stderr
    assert "learning rate  s1  running" in done.stdout
    assert "Cost so far: $0.00 of at most $40.00" in done.stdout
    shown = json.loads(run("sweep", "show", "s1", "--json").stdout)
    assert [member["parameters"]["lr"] for member in shown["members"]] == ["1e-4", "1e-4", "3e-4", "3e-4"]
    assert shown["better"] == "lower"


def test_dry_run_prints_the_cost_and_launches_nothing(run: Run, file: Path) -> None:
    """The cost is of each member, and of all of them together."""
    done = run("sweep", "launch", str(file), "--dry-run", "--hours", "10", **ADA)
    assert "4 members of 10 h each: $6.86." in done.stdout
    assert "the last ends after 20 h" in done.stdout
    assert "No sweep fits" in run("sweep", "list").stdout


def test_table_has_parameters_states_and_costs(run: Run, office: JobSetup) -> None:
    """A line for each member; those that wait have no job yet."""
    sweep_story.tell(office)
    lines = run("sweep", "show", sweep_story.ID).stdout.splitlines()
    (begins,) = [number for number, line in enumerate(lines) if line.startswith("No.")]
    assert lines[begins].split()[:4] == ["No.", "lr", "seed", "State"]
    assert [line.split()[:4] for line in lines[begins + 1 :]] == [
        ["1", "1e-4", "1", "succeeded"],
        ["2", "1e-4", "2", "failed"],
        ["3", "3e-4", "1", "waiting"],
        ["4", "3e-4", "2", "waiting"],
    ]


def test_failed_member_is_resumed_and_the_sweep_cancelled(run: Run, office: JobSetup) -> None:
    """The sweep is named by its id or its name; each command says how it stands then."""
    sweep_story.tell(office)
    resumed = run("sweep", "resume", sweep_story.ID, "--member", "2", "--ceiling", "60", **ADA)
    assert "resumed it; 1 member to be launched again" in resumed.stdout
    assert "of at most $60.00" in resumed.stdout
    name = json.loads(run("sweep", "show", sweep_story.ID, "--json").stdout)["sweep"]["name"]
    cancelled = run("sweep", "cancel", name, "--reason", "wrong data", **ADA)
    assert "cancels it: wrong data" in cancelled.stdout
    assert sweep_story.ID in run("sweep", "list").stdout


def test_everything_wrong_is_shown(run: Run, file: Path) -> None:
    """The errors are shown as the server says them; nothing was launched."""
    done = run("sweep", str(changed(file, "{lr}-{seed}", "shared")), **ADA)
    assert done.returncode != 0
    assert "Members 1 and 2 would write to the same place" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at_once = 2", "at_one = 2", "at_one means nothing here"),
        ("[launch]", "[lunch]", "lunch means nothing here"),
        ("[grid]", "[grid", "is no TOML"),
        ('preset = "t4"', "", "names no preset"),
        ("checkpoint =", "checkpint =", "checkpint is no option"),
        ("checkpoint =", "url =", "url is no option"),
        ("env = { EPOCHS = 3 }", 'keep = "many"', "In [launch]:"),
    ],
)
def test_wrong_file_is_explained(file: Path, old: str, new: str, message: str) -> None:
    """The error says what is wrong and where the options are listed; no server is asked."""
    with pytest.raises(WrongUsage) as wrong:
        job_file.job_of(sweep_file.read(changed(file, old, new))["launch"], "[launch]")
    assert message in wrong.value.message


def test_every_option_of_launch_can_be_written() -> None:
    """Flags, repeated options and tables, as the command line takes them."""
    section = {
        "preset": "t4",
        "command": ["sh", "-c", "echo --zone {lr}"],
        "buy": "demand",
        "fallback": False,
        "zone": ["us-central1-a", "us-central1-b"],
        "env": {"A": "b=c", "B": True},
        "secret": ["KEY=projects/lab/secrets/key"],
        "pull": True,
        "keep": 0,
        "max_crashes": 1,
        "resume": "--from {checkpoint}",
    }
    job = job_file.job_of(section, "[launch]")
    assert job["command"] == ["sh", "-c", "echo --zone {lr}"]
    assert job["zone"] == ["us-central1-a", "us-central1-b"]
    assert (job["buy"], job["pull"], job["keep"], job["max_crashes"]) == ("demand", True, 0, 1)
    assert job["fallback"] is False
    assert job["env"] == ["A=b=c", "B=true"]
    assert job["resume"] == "--from {checkpoint}"


def test_example_is_a_file_that_can_be_launched(run: Run, tmp_path: Path) -> None:
    """The guide shows the same; each of its six members has a place of its own."""
    example = run("sweep", "init").stdout
    guide = Path(__file__).parents[2] / "service" / "docs" / "sweeps.md"
    assert f"```toml\n{example}```" in guide.read_text("utf-8")
    path = tmp_path / "sweep.toml"
    path.write_text(example.replace('preset = "a100"', 'preset = "t4"').replace('workdir = "."', ""))
    done = run("sweep", str(path), "--dry-run", **ADA)
    assert (done.returncode, "6 members" in done.stdout, "REFUSED" in done.stdout) == (0, True, False), done.stdout


def test_job_file_is_launched_with_seeds(run: Run, tmp_path: Path) -> None:
    """The same script runs five times, and needs no change but to read SEED."""
    path = tmp_path / "job.toml"
    path.write_text(
        'name = "bert"\npreset = "t4"\ncommand = "python train.py"\ncheckpoint = "gs://lab/bert"\nlocal = "/o"\n'
    )
    assert "describes one job" in run("sweep", str(path), **ADA).stderr
    done = run("sweep", str(path), "--seeds", "5", **ADA)
    assert done.returncode == 0, done.stderr
    shown = json.loads(run("sweep", "show", "s1", "--json").stdout)
    assert [member["parameters"] for member in shown["members"]] == [{"seed": str(number)} for number in range(1, 6)]


def test_losers_are_stopped_where_it_is_said(run: Run, file: Path) -> None:
    """The options say it, or the file; the direction of a metric with a usual name is known."""
    done = run("sweep", str(file), "--halving", "3", "--metric", "val_loss", **ADA)
    assert "Halving by val_loss waits: no member has reported its val_loss with a step yet." in done.stdout, done.stderr
    shown = json.loads(run("sweep", "show", "s1", "--json").stdout)
    assert (shown["halving"]["eta"], shown["halving"]["better"], shown["halving"]["stopped"]) == (3, "lower", 0)
    changed(file, "ceiling = 40", 'halving = { eta = 4, metric = "gain", goal = "max" }')
    assert run("sweep", str(file), **ADA).returncode == 0
    assert json.loads(run("sweep", "show", "s2", "--json").stdout)["halving"]["better"] == "higher"


def test_halving_that_cannot_be_is_refused(run: Run, file: Path) -> None:
    """A name does not say its direction, and a metric alone not how many go on."""
    done = run("sweep", str(file), "--halving", "3", "--metric", "gain", **ADA)
    assert "give the goal, min or max" in done.stderr
    assert "Add --halving 3" in run("sweep", str(file), "--metric", "val_loss", **ADA).stderr
    changed(file, "ceiling = 40", 'halving = { eta = 3, by = "gain" }')
    assert "halving: by means nothing here" in run("sweep", str(file), **ADA).stderr


def test_members_are_kept_from_halving(run: Run, office: JobSetup) -> None:
    """The command keeps one of them, and then all, which ends it."""
    sweep_story.tell(office)
    assert run("sweep", "keep", sweep_story.ID, "--member", "3", **ADA).returncode == 0
    shown = json.loads(run("sweep", "show", sweep_story.ID, "--json").stdout)
    assert [member["kept_by"] for member in shown["members"]] == ["", "", "ada@lab.example", ""]
    assert "which ada@lab.example ended" in run("sweep", "keep", sweep_story.ID, **ADA).stdout
    assert "has no member 9" in run("sweep", "keep", sweep_story.ID, "--member", "9", **ADA).stderr
