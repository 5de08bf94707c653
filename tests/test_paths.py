"""The tracer of `make paths` counts what it says it counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.paths import Trace, listing_to_spend, room_of


def test_first_entries_are_traced(tmp_path: Path) -> None:
    """A room that is left and entered again changes twice; what was entered before, and what all rooms use, does not
    count.
    """
    charge = _function(tmp_path / "costguard" / "ledger" / "charges.py", "charge", "return [one for one in given()]")
    look = _function(tmp_path / "costguard" / "gce" / "client.py", "look")
    read = _function(tmp_path / "costguard" / "db" / "transaction.py", "read")
    call = _function(tmp_path / "costguard_client" / "calls.py", "call")
    later = _function(tmp_path / "costguard" / "ledger" / "roll_up.py", "later")
    stranger = _function(tmp_path / "costguard_sandbox" / "world.py", "stranger")
    with (trace := Trace(tmp_path)):
        charge(look)
    with trace:
        for one in (read, call, stranger, later, later, look, lambda: ()):
            one()
    assert [function for _, function in trace.entries] == ["charge", "look", "read", "call", "later"]
    assert trace.room_changes == 3  # the ledger, Google, the client, the ledger
    assert trace.files == [
        "costguard/gce/client.py",
        "costguard/ledger/charges.py",
        "costguard/ledger/roll_up.py",
        "costguard_client/calls.py",
    ]


def test_what_is_left_out_is_left_out_with_what_it_calls(tmp_path: Path) -> None:
    """The trace goes on where the function that it looks away from returns."""
    inner = _function(tmp_path / "costguard" / "jobs" / "act" / "turn.py", "inner")
    act = _function(tmp_path / "costguard" / "daemon" / "acting.py", "act", "return given()")
    after = _function(tmp_path / "costguard" / "spend" / "spend.py", "after")
    with (trace := Trace(tmp_path, frozenset({"act"}))):
        act(inner)
        after()
    assert trace.files == ["costguard/spend/spend.py"]


def test_a_room_is_a_folder_or_a_package() -> None:
    """The parts of jobs are one room."""
    assert room_of("costguard/jobs/act/turn.py") == room_of("costguard/jobs/rows/attempts.py") == "jobs"
    assert room_of("costguard_vm/model/usage.py") == "costguard_vm"
    assert room_of("costguard/errors.py") == ""


def test_the_path_from_listing_to_page_is_whole() -> None:
    """It begins with Google's listing, goes through the ledger, and ends with the page."""
    trace = listing_to_spend()
    assert {"costguard/gce/listing.py", "costguard/ledger/charged/charges.py", "costguard/spend/spend.py"} < set(
        trace.files
    )
    assert "costguard/reminders/decide.py" not in trace.files
    assert room_of(trace.entries[0][0]) == "daemon"
    assert ("costguard/pages/spend.py", "show_spend") in trace.entries


def _function(file: Path, name: str, text: str = "return ()") -> Callable[..., object]:
    made: dict[str, Callable[..., object]] = {}
    exec(compile(f"def {name}(given=None):\n    {text}\n", str(file), "exec"), made)
    return made[name]
