"""`costguard read`, which needs no server."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from costguard.cli.app import app


def test_read_end_prints_four_fields(tmp_path: Path) -> None:
    """Class, state, cause and what another attempt would do; also from standard input."""
    log = tmp_path / "train.log"
    log.write_text("step 10: loss 2.5\nOSError: [Errno 28] No space left on device\n")
    expected = {"class": "disk", "state": "dead", "cause": "the disk is full", "retry": "no"}
    assert json.loads(CliRunner().invoke(app, ["read", "end", str(log), "--json"]).output) == expected


def test_read_end_says_it_in_sentences_with_the_line_that_decided(tmp_path: Path) -> None:
    """A person reads what ended it, what to do, and where that stands."""
    log = tmp_path / "train.log"
    log.write_text("NVRM: Xid (PCI:0000:01:00): 79, pid=6755, GPU has fallen off the bus.\n")
    said = CliRunner().invoke(app, ["read", "end", str(log)], env={"COLUMNS": "200"}).output
    assert "Xid 79: the GPU has fallen off the bus" in said
    assert "on another VM" in said
    assert "NVRM: Xid (PCI:0000:01:00): 79" in said


def test_read_end_claims_nothing_about_a_log_that_just_stops(tmp_path: Path) -> None:
    """Silence is no end."""
    log = tmp_path / "train.log"
    log.write_text("step 10: loss 2.5\n")
    said = CliRunner().invoke(app, ["read", "end", str(log)], env={"COLUMNS": "200"}).output
    assert "Whether it ended the log does not say. The log shows no reason." in said


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    """The error says which file, and what to name."""
    missing = CliRunner().invoke(app, ["read", "end", str(tmp_path / "none.log")])
    assert "cannot be read" in str(missing.exception)


def test_read_stragglers_names_the_worker_and_its_stretch(tmp_path: Path) -> None:
    """Worker 2 of four, in the middle of the run, for ten looks; the same as an object."""
    rows = [
        f"{worker},{at},{(2.0 if worker == 2 and 50 <= at < 60 else 1.0)}" for at in range(100) for worker in range(4)
    ]
    steps = tmp_path / "steps.csv"
    steps.write_text("\n".join(["rank,step,seconds", *rows]))
    said = CliRunner().invoke(app, ["read", "stragglers", str(steps)], env={"COLUMNS": "200"}).output
    assert "Worker 2 was 2.0 times as slow as usual, from 51% to 60% of the run" in said
    [only] = json.loads(CliRunner().invoke(app, ["read", "stragglers", str(steps), "--json"]).output)["stragglers"]
    assert (only["worker"], only["since"], only["until"]) == ("2", 50.0, 59.0)


def test_read_stragglers_names_the_columns_that_are_missing(tmp_path: Path) -> None:
    """The error says which columns the file has, and what to write."""
    steps = tmp_path / "steps.csv"
    steps.write_text("a,b\n1,2\n")
    wrong = CliRunner().invoke(app, ["read", "stragglers", str(steps)])
    assert "it has a, b" in str(wrong.exception)


def test_read_error_prints_the_kind_what_lacks_and_the_command(tmp_path: Path) -> None:
    """An answer that was pasted, as an object."""
    answer = tmp_path / "answer.txt"
    answer.write_text("googleapi: Error 403: Required 'compute.zones.list' permission for 'projects/p-1', forbidden")
    read = json.loads(CliRunner().invoke(app, ["read", "error", str(answer), "--json"]).output)
    assert (read["kind"], read["service"], read["missing"]["permissions"]) == (
        "permission",
        "compute",
        ["compute.zones.list"],
    )
    assert "gcloud projects add-iam-policy-binding p-1" in read["mend"]


def test_read_error_takes_standard_input_and_says_it_in_sentences() -> None:
    """A person reads what happened, and what mends it."""
    body = '{"ok": false, "error": "missing_scope", "needed": "chat:write", "provided": "channels:read"}'
    said = CliRunner().invoke(app, ["read", "error", "-"], input=body, env={"COLUMNS": "300"}).output
    assert "The app lacks chat:write in Slack; it has channels:read." in said
    assert "install the app again" in said


def test_read_error_makes_no_guess_about_an_error_it_does_not_know(tmp_path: Path) -> None:
    """The error's own words."""
    answer = tmp_path / "answer.txt"
    answer.write_text("The flux is out of phase")
    said = CliRunner().invoke(app, ["read", "error", str(answer)], env={"COLUMNS": "200"}).output
    assert "The flux is out of phase." in said
    assert "Costguard does not know this error" in said
