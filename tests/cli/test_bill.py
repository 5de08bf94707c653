"""`costguard bill` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bill import stored_bill
from tests.bill.exports import row
from tests.cli.conftest import Run
from tests.cli.test_serve import settings, typed
from tests.cli.typed import Typist

from costguard.db import migrate
from costguard.db.transaction import Database


def test_files_of_an_export_are_read_without_a_server(typist: Typist, tmp_path: Path) -> None:
    """All files together; the second time nothing is new, and a file that breaks off exits 1 and names the row."""
    config = settings(tmp_path, "http://127.0.0.1:9")
    migrate.upgrade(f"sqlite:///{tmp_path}/costguard.db")
    pieces = [tmp_path / f"export-{number}.jsonl" for number in range(2)]
    for number, piece in enumerate(pieces):
        piece.write_text(json.dumps(row(number)) + "\n", "utf-8")
    files = [str(piece) for piece in pieces]
    done = typed(typist, "bill", "read", *files, config=config)
    assert done.returncode == 0, done.stderr
    assert "Read 2 rows of 1 export day; 1 new or changed." in done.stdout
    again = typed(typist, "bill", "read", *files, "--json", config=config)
    assert json.loads(again.stdout) == {"rows": 2, "export_days": 1, "days_changed": 0, "left_out": 0, "reasons": []}
    piece_alone = typed(typist, "bill", "read", files[0], config=config)
    assert piece_alone.returncode == 1
    assert "Give all files of that day in one command" in piece_alone.stderr
    pieces[1].write_text("{", "utf-8")
    damaged = typed(typist, "bill", "read", *files, config=config)
    assert damaged.returncode == 1
    assert "export-1.jsonl breaks off after row 0: its last line is not whole." in damaged.stderr


def test_a_file_that_is_not_there_exits_1(typist: Typist, tmp_path: Path) -> None:
    """The error names the file."""
    config = settings(tmp_path, "http://127.0.0.1:9")
    migrate.upgrade(f"sqlite:///{tmp_path}/costguard.db")
    answer = typed(typist, "bill", "read", str(tmp_path / "none.jsonl"), config=config)
    assert answer.returncode == 1
    assert "none.jsonl cannot be read" in answer.stderr


def test_days_and_worst_vms_are_shown_with_their_stories(sqlite_database: Database, run: Run) -> None:
    """A line a day, the closed ones added up, then each VM that differs, and what the ledger does not hold."""
    assert run("bill").stdout.startswith("No bill is compared from 2026-11-01 to 2026-11-20 (UTC).")
    stored_bill.tell(sqlite_database)
    shown = run("bill").stdout
    assert "The ledger is within 1.7% of Google's bill through 16 November." in shown
    assert "differs: 4 lines" in shown
    (still_open,) = (line for line in shown.splitlines() if "still to come" in line)
    assert still_open.split()[3:5] == ["–", "–"]  # no difference is shown of rows that may come
    assert "train-1 / train-1: -$5.70" in shown
    assert "  2026-11-15: More N1 vCPU was billed (7.5%)" in shown
    assert "spare-a100s" in shown
    assert "They took $6.48 off usage, and cost $0.42 besides: $6.06 saved in all." in shown
    assert "Commitment v1: Cpu in Americas for 1 Year" in shown
    assert json.loads(run("bill", "--json").stdout)["accuracy"]["permille"] == 17


def test_spend_by_the_bill_is_asked_for_by_its_basis(sqlite_database: Database, run: Run) -> None:
    """The amount is that paid on closed days; another basis, and a basis with FOCUS, are refused in a line."""
    stored_bill.tell(sqlite_database)
    closed = ("--from", "2026-11-14", "--to", "2026-11-16")
    paid = json.loads(run("bill", *closed, "--json").stdout)["total"]["effective"]
    spent = run("spend", *closed, "--basis", "bill", "--by", "owner", "--json")
    assert json.loads(spent.stdout)["total"]["total"] == paid
    assert "What was paid on 3 days; list prices on the others." in run("spend", *closed, "--basis", "bill").stdout
    assert json.loads(run("spend", *closed, "--json").stdout)["total"]["total"] == "0.00"
    wrong = run("spend", "--basis", "invoice")
    assert wrong.returncode == 2
    assert "neither ledger nor bill" in wrong.stderr
    by_vm = run("spend", *closed, "--basis", "bill", "--by", "vm")
    assert by_vm.returncode == 2
    assert "no rows by VM" in by_vm.stderr
    focus = run("spend", *closed, "--basis", "bill", "--focus", "never.csv")
    assert focus.returncode == 2
    assert "FOCUS has the ledger's charges" in focus.stderr
