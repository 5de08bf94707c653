"""Terminals wide and narrow, watching, and how values are written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from costguard.cli.events import show_events
from costguard.cli.fleet import follow, show_fleet, show_vm
from costguard.cli.tables import Column, amount_text, clean, dollars, limit_text, rate, show_table
from costguard.errors import ServerUnreachable
from costguard.model.duration import span_text
from costguard.model.words import count_text


def _amount(amount: str | None, complete: bool = True) -> dict[str, Any]:
    return {"amount": amount, "currency": "USD", "complete": complete}


def _fleet(**changed: Any) -> dict[str, Any]:
    instance = {
        "name": "trainer",
        "project": "lab",
        "zone": "us-central1-a",
        "preset": "t4",
        "owner": "ada@lab.example",
        "owner_source": "creator",
        "status": "running",
        "machine_type": "n1-standard-4",
        "gpu_type": "nvidia-tesla-t4",
        "gpu_count": 1,
        "provisioning_model": "spot",
        "started_at": "2026-11-20T11:00:00Z",
        "due_at": "2026-11-20T19:00:00Z",
        "gone_at": None,
        "unread": "",
        "rate_per_hour": _amount("0.165"),
        "total_cost": _amount("0.165"),
        "idle": None,
        **changed,
    }
    return {
        "as_of": "2026-11-20T12:00:00Z",
        "totals": {"instances": 1, "running": 1, "rate_per_hour": "0.165", "unpriced": 0},
        "unread": [],
        "instances": [instance],
        "next_cursor": None,
    }


def _terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, markup=False)


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_narrow_terminal_keeps_what_is_overdue() -> None:
    """80 columns leave out places before limits, say what is left out, and break neither names nor addresses."""
    late = _fleet(name="forgotten-notebook-7", due_at="2026-11-17T19:00:00Z", project="acme-training")
    narrow, wide = _terminal(80), _terminal(200)
    show_fleet(narrow, late)
    show_fleet(wide, late)
    assert "over by 2 d 17 h" in _text(wide)
    assert "Not shown" not in _text(wide)
    row = next(line for line in _text(narrow).splitlines() if "forgotten-notebook-7" in line)
    assert "ada@lab.example" in row
    assert "over 2 d 17 h" in row
    assert "us-central1-a" not in _text(narrow)
    assert "Not shown, for want of width: Project / zone" in _text(narrow)
    assert max(map(len, _text(narrow).splitlines())) <= 80


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"status": "stopped", "started_at": None, "due_at": None}, "stopped"),
        ({"unread": "Google did not reach it."}, "in 7 h ?"),
    ],
)
def test_a_narrow_terminal_tells_a_status_where_it_matters(changed: dict[str, Any], shown: str) -> None:
    """Where no column is left for the status, the limit tells what is not simply running."""
    console = _terminal(56)
    show_fleet(console, _fleet(**changed))
    assert "Status" in _text(console).partition("Not shown")[2]
    assert shown in _text(console)


def test_what_cannot_fit_has_a_line_for_each_value() -> None:
    """The names and addresses in 30 columns are neither broken nor cut off, and prose is still wrapped at words."""
    console = _terminal(30)
    columns = (
        Column("Name", "name"),
        Column("Owner", "owner", spare=1),
        Column("", "bar"),
        Column("Why", "why", prose=True),
    )
    row = {"name": "n" * 40, "owner": "chiara.of.the.long.name@research.example.com", "bar": "##", "why": "word " * 12}
    show_table(console, columns, [row, {**row, "name": "short"}], [Text("sum"), Text(""), Text(""), Text("")])
    lines = [line.rstrip() for line in _text(console).splitlines()]
    assert lines[:3] == [f"Name: {row['name']}", f"Owner: {row['owner']}", "##"]
    assert {len(line) <= 30 for line in lines if "word" in line} == {True}
    assert lines[-1] == "Name: sum"


def test_an_address_is_whole_at_every_width() -> None:
    """Sessions and reminders name people: they can be copied from any terminal."""
    address = "chiara.of.the.long.name@research.example.com"
    columns = (
        Column("Id", "id"),
        Column("Who", "who"),
        Column("Until", "until", spare=1),
        Column("Why", "why", prose=True),
    )
    row = {"id": "8c1f0a9b2d3e4f50", "who": address, "until": "2026-11-28 00:52:39", "why": f"requested by {address}"}
    for width in range(20, 160, 5):
        console = _terminal(width)
        show_table(console, columns, [row])
        assert _text(console).count(address) == 2, width


def test_columns_without_a_title_are_not_named_as_left_out() -> None:
    """A bar has none, and its comma stood alone."""
    console = _terminal(30)
    columns = (
        Column("Budget", "name"),
        Column("", "bar", spare=3),
        Column("Scope", "scope", spare=2),
        Column("Range", "scope", spare=1),
    )
    show_table(console, columns, [{"name": "everything", "bar": "#" * 20, "scope": "project acme-training"}])
    assert "Not shown, for want of width: Scope, Range." in " ".join(_text(console).split())


def test_prose_is_wrapped_at_words_and_nothing_else_is() -> None:
    """Events in 80 columns: times stay whole, sentences take the width that is left."""
    text = (
        "trainer (a2-highgpu-1g, 1 x nvidia-tesla-a100, Spot) was first seen in us-central1-a; owner ana@example.com."
    )
    event = {
        "occurred_at": "2026-11-20T11:00:00Z",
        "kind": "InstanceSeen",
        "project": "acme-training",
        "name": "a-trainer-of-some-length-4",
        "text": text,
        "actor": "ana@example.com",
    }
    console = _terminal(80)
    show_events(console, {"events": [event], "next_cursor": None}, is_filtered=False)
    shown = _text(console)
    assert "2026-11-20 11:00:00" in shown
    assert [word for word in text.split() if word not in shown] == []
    assert "Not shown, for want of width: Resource" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_an_instance_that_was_not_read_says_so() -> None:
    """The state of a VM in an unread zone may be old: its status carries a question mark."""
    console = _terminal(160)
    show_fleet(console, _fleet(unread="Google did not reach it."))
    assert "running? (not read)" in _text(console)


def test_a_fleet_with_what_vertex_ai_runs_is_one_of_resources() -> None:
    """The column and the total say so, each row says what it is, and one of VMs alone stays as it was."""
    console, of_vms = _terminal(160), _terminal(160)
    show_fleet(console, _fleet(name="fine-tune", kind="custom_job"))
    show_fleet(of_vms, _fleet(kind="instance"))
    assert _text(console).split()[0] == "Resource"
    assert "fine-tune (custom job)" in _text(console)
    assert "1 resource, 1 running" in _text(console)
    assert _text(of_vms).split()[0] == "VM"
    assert "1 VM, 1 running" in _text(of_vms)


@pytest.mark.parametrize("terminal", [True, False])
def test_watching_shows_the_fleet_afresh(terminal: bool) -> None:
    """Each wait is followed by a new answer, until the wait says to stop."""
    console = Console(file=io.StringIO(), width=160, force_terminal=terminal, color_system=None)
    answers = iter([_fleet(name="first"), _fleet(name="second")])
    stops = iter([False, True])
    follow(lambda: next(answers), console, lambda: next(stops))
    assert _text(console).index("first") < _text(console).index("second")


def test_watching_outlives_a_server_that_restarts() -> None:
    """While the server is away the last answer stays, with its time; then it goes on."""
    console = _terminal(160)
    outcomes: Iterator[dict[str, Any] | ServerUnreachable] = iter(
        [_fleet(name="first"), ServerUnreachable("Gone."), _fleet(name="second")]
    )
    stops = iter([False, False, True])

    def fetch() -> dict[str, Any]:
        outcome = next(outcomes)
        if isinstance(outcome, ServerUnreachable):
            raise outcome
        return outcome

    follow(fetch, console, lambda: next(stops))
    assert "Gone. This is from 2026-11-20T12:00:00Z." in _text(console)
    assert "second" in _text(console)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("0.00", "$0.00"), ("1234.565", "$1,234.56"), ("0.004", "<$0.01"), ("-3.456", "-$3.46"), ("0.005000001", "$0.01")],
)
def test_dollars_are_rounded_for_showing_only(amount: str, shown: str) -> None:
    """Halves to even; what is too small to show is not shown as nothing."""
    assert dollars(amount) == shown


def test_rates_and_amounts_say_what_is_missing() -> None:
    """Small rates keep a third place, nothing needs none; unpriced is a word, a partial amount has a question mark."""
    assert (rate("0.534"), rate("88.49"), rate("0.0001"), rate("0.00")) == ("$0.534", "$88.49", "<$0.001", "$0.00")
    assert amount_text(_amount(None, complete=False)) == "unpriced"
    assert amount_text(_amount("1.20", complete=False)) == "$1.20 + ?"


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (timedelta(seconds=-1), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(hours=35, minutes=5), "1 d 11 h"),
        (timedelta(days=3, hours=4), "3 d 4 h"),
    ],
)
def test_ages(span: timedelta, shown: str) -> None:
    """The two largest units, as events and pages say it."""
    assert span_text(span) == shown


def test_limits_and_counts_in_words() -> None:
    """The text says by how much a limit is passed; one thing is not several."""
    now = "2026-11-20T12:00:00Z"
    assert limit_text(now, "2026-11-17T19:00:00Z") == "over by 2 d 17 h"
    assert limit_text(now, "2026-11-20T17:10:00Z") == "in 5 h 10 min"
    assert (count_text(1, "VM"), count_text(2, "VM"), count_text(0, "VM")) == ("1 VM", "2 VMs", "0 VMs")
    assert count_text(1, "lifetime or disk", "lifetimes and disks") == "1 lifetime or disk"


def test_clean_shows_controls_and_keeps_letters() -> None:
    """C0, C1 and direction marks are written out; other scripts stay."""
    assert clean("a\x1b[2J\x9b\r\n\u2066ß日本") == r"a\x1b[2J\x9b\x0d\x0a\u2066ß日本"


IDLE = {"state": "idle", "since": "2026-11-20T09:50:00Z", "evidence": "GPU under 5 % for 2 h 10 min", "is_weak": False}


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"idle": IDLE}, "2 h 10 min"),
        ({"idle": {**IDLE, "is_weak": True}}, "2 h 10 min by CPU"),
        ({"idle": {**IDLE, "state": "busy"}}, "no"),
        ({"idle": {**IDLE, "state": "unknown"}}, "?"),
        ({"idle": None}, "-"),
    ],
)
def test_how_long_a_vm_is_idle(changed: dict[str, Any], shown: str) -> None:
    """A span only where it is known to be idle; weak evidence carries a mark, what nobody knows a question mark."""
    console = _terminal(200)
    show_fleet(console, _fleet(**changed))
    heading, _, row, *_ = _text(console).splitlines()
    assert row[heading.index("Idle") :].partition("  ")[0] == shown


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_terminal_that_leaves_the_idle_column_out_says_so(width: int) -> None:
    """Either the span stands there whole, or the table names the column that it has no room for."""
    console = _terminal(width)
    show_fleet(console, _fleet(name="instance-20261118-041207", idle={**IDLE, "is_weak": True}))
    table, _, left_out = _text(console).partition("Not shown")
    assert ("2 h 10 min by CPU" in table) != ("Idle" in left_out)
    assert max(map(len, _text(console).splitlines())) <= width


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"idle": IDLE}, "idle since 2026-11-20 09:50:00: GPU under 5 % for 2 h 10 min"),
        ({"idle": None}, "not measured"),
        ({"status": "stopped", "started_at": None, "due_at": None}, "not running"),
    ],
)
def test_one_vm_tells_its_use_with_the_evidence(changed: dict[str, Any], shown: str) -> None:
    """`costguard show` gives the sentence in full; a stopped VM is not called unmeasured."""
    (instance,) = _fleet(gce_id="42", created_at="2026-11-20T11:00:00Z", created_by="ada", labels={}, **changed)[
        "instances"
    ]
    console = _terminal(120)
    answer = {"as_of": "2026-11-20T12:00:00Z", "instance": instance | {"unpriced": []}, "lifetimes": [], "storage": []}
    show_vm(console, answer)
    (line,) = [line for line in _text(console).splitlines() if line.startswith("use")]
    assert line.removeprefix("use").strip() == shown


def test_a_resource_of_vertex_ai_names_its_keeper_without_numbers() -> None:
    """A cluster is named with its pool; what Vertex AI keeps is known by its kind."""
    keeper = {"cluster": "", "name": "88", "pool": "99", "evidence": ["aiplatform.googleapis.com"]}
    shared = {"gce_id": "1", "created_at": "2026-11-20T10:00:00Z", "created_by": "", "labels": {}, "unpriced": []}
    lines = []
    for kind, kept in (("deployed_model", {**keeper, "kind": "vertex"}), ("instance", {**keeper, "kind": "gke"})):
        console = _terminal(120)
        vm = _fleet(kind=kind, keeper=kept, **shared)["instances"][0]
        show_vm(console, {"as_of": "2026-11-20T12:00:00Z", "instance": vm, "lifetimes": [], "storage": []})
        (line,) = [line for line in _text(console).splitlines() if line.startswith("keeper")]
        lines.append(line.removeprefix("keeper").strip())
    assert lines == ["Vertex AI", "gke 88/99 (aiplatform.googleapis.com)"]
