"""Terminals wide and narrow, watching, and how values are written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from costguard.cli import fleet_table
from costguard.cli.commands_fleet import follow
from costguard.cli.format import age, amount_text, clean, dollars, rate
from costguard.errors import ServerUnreachable


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


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    """Below 120 columns preset, place and limit are left out; no line is longer than the terminal."""
    narrow, wide = _terminal(80), _terminal(160)
    fleet_table.show(narrow, _fleet())
    fleet_table.show(wide, _fleet())
    assert "in 7h 00m" in _text(wide)
    assert "us-central1-a" not in _text(narrow)
    assert max(map(len, _text(narrow).splitlines())) <= 80


def test_an_instance_that_was_not_read_says_so() -> None:
    """What is known of a VM in an unread zone may be old: its status carries a question mark."""
    console = _terminal(160)
    fleet_table.show(console, _fleet(unread="Google did not reach it."))
    assert "running? (not read)" in _text(console)


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
    """Small rates keep a third place; unpriced is a word and a partial amount has a question mark."""
    assert (rate("0.534"), rate("88.49"), rate("0.0001")) == ("$0.534", "$88.49", "<$0.001")
    assert amount_text(_amount(None, complete=False)) == "unpriced"
    assert amount_text(_amount("1.20", complete=False)) == "$1.20 + ?"


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=59), "59m"),
        (timedelta(hours=47, minutes=5), "47h 05m"),
        (timedelta(days=3, hours=4), "3d 4h"),
    ],
)
def test_ages(span: timedelta, shown: str) -> None:
    """Two units at most, and days from the second on."""
    assert age(span) == shown


def test_clean_shows_controls_and_keeps_letters() -> None:
    """C0, C1 and direction marks are written out; other scripts stay."""
    assert clean("a\x1b[2J\x9b\r\n\u2066ß日本") == r"a\x1b[2J\x9b\x0d\x0a\u2066ß日本"
