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


RECORDED_ENTRIES = Path(__file__).parents[1] / "ledger" / "recorded_entries.json"


def _entries_in(folder: Path) -> Path:
    for one in json.loads(RECORDED_ENTRIES.read_text("utf-8"))["entries"]:
        (folder / f"{one['id']}.json").write_text(json.dumps(one["entry"]))
    return folder


def test_read_events_prints_what_each_entry_says(tmp_path: Path) -> None:
    """An object for each entry, with the moment of the event, in the order of the files; a torn file has its reason."""
    (_entries_in(tmp_path) / "torn.json").write_text('{"protoPayload": {"methodName": "v1.comp')
    rows = json.loads(CliRunner().invoke(app, ["read", "events", str(tmp_path), "--json"]).output)
    by_file = {row["file"]: row for row in rows}
    assert list(by_file) == sorted(by_file)
    spot = by_file["044.json"]
    assert (spot["kind"], spot["instance_id"], spot["who"]) == ("created", "5782564763008031855", None)
    assert (spot["machine_type"], spot["provisioning"]) == ("e2-standard-2", "spot")
    assert spot["at"] == "2022-11-04T19:05:36.638Z"
    assert spot["principal"] == "503076212345@cloudservices.gserviceaccount.com"
    assert by_file["torn.json"]["kind"] == "noise"
    assert by_file["torn.json"]["problem"].startswith("it is no JSON")


def test_read_events_shows_a_table_to_people(tmp_path: Path) -> None:
    """The VM by its name, what happened to it, and who asked."""
    said = CliRunner().invoke(app, ["read", "events", str(_entries_in(tmp_path))], env={"COLUMNS": "200"}).output
    [deleted] = [line for line in said.splitlines() if line.startswith("064.json")]
    assert deleted.split()[1:4] == ["deleted", "instance-3", "user26@example.com"]


def test_read_events_names_a_folder_without_entries(tmp_path: Path) -> None:
    """The error says what the folder lacks."""
    outcome = CliRunner().invoke(app, ["read", "events", str(tmp_path)])
    assert "has no *.json, *.jsonl or *.ndjson files" in str(outcome.exception)
