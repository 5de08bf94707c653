"""An item's failure stays its own."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from costguard.errors import Conflict, LeaseLost, StoreError
from costguard.isolation import Isolated


def _raise(error: BaseException) -> None:
    raise error


def test_an_oddity_ends_its_block_alone_and_is_logged_with_its_trace() -> None:
    """The others go on; the log names the item, and the caller has the error and its words."""
    odd = ZeroDivisionError("seven")
    with capture_logs() as logs, Isolated("job_not_decided", job="j1") as failure:
        _raise(odd)
    assert failure.error is odd
    assert failure.words == "ZeroDivisionError: seven"
    assert logs == [{"event": "job_not_decided", "log_level": "error", "job": "j1", "error": "seven", "exc_info": odd}]


def test_what_was_raised_on_purpose_is_logged_without_a_trace() -> None:
    """It says itself what to do."""
    with capture_logs() as logs, Isolated("turn_failed") as failure:
        _raise(Conflict("It changed.", "Try again."))
    assert isinstance(failure.error, Conflict)
    assert [(entry["error"], entry["exc_info"]) for entry in logs] == [("It changed. Try again.", None)]


def test_a_block_without_an_error_leaves_none() -> None:
    """Nothing is logged either."""
    with capture_logs() as logs, Isolated("turn_failed") as failure:
        pass
    assert (failure.error, logs) == (None, [])


@pytest.mark.parametrize("error", [StoreError("broken"), LeaseLost("taken over"), KeyboardInterrupt()])
def test_what_concerns_all_items_goes_on_to_the_caller(error: BaseException) -> None:
    """The database's errors, unless other ones are named, and the end of the process."""
    with capture_logs() as logs, pytest.raises(type(error)), Isolated("turn_failed"):
        _raise(error)
    assert logs == []


def test_only_what_is_named_passes_where_it_is_named() -> None:
    """A step of Google's takes even a database's error for an unknown outcome; a turn gives way to another daemon."""
    with Isolated("step_failed", passing=()) as failure:
        _raise(StoreError("broken"))
    assert isinstance(failure.error, StoreError)
    with pytest.raises(LeaseLost), Isolated("turn_failed", passing=LeaseLost):
        _raise(LeaseLost("taken over"))
