"""A profile from a real process to the page: guard, simulated cloud, agent, py-spy and training are processes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.scenario.training_ground import OWNER, ground


@pytest.mark.long
def test_profile_of_a_training_reaches_the_guard(tmp_path: Path) -> None:
    """The team's settings allow it, and the job does not say; nothing but names comes. Four minutes."""
    with ground(tmp_path, more_settings="profile = true") as place:
        job = place.launch("--steps", "100000", "--step-seconds", "0.05")

        def has_minutes(count: int) -> bool:
            return bool(place.ask(f"jobs/{job}/diagnosis")["minutes"] >= count)

        for count in (1, 2, 3):
            place.wait(partial(has_minutes, count), f"{count} minutes were reported")
        place.wait(lambda: place.ask(f"jobs/{job}/profile")["windows"], "a window has come")

        answer = place.ask(f"jobs/{job}/profile")
        assert answer["why_none"] == ""
        (main,) = (group for group in answer["groups"] if group["name"] == "main")
        own = [function for function in main["functions"] if function["is_own"]]
        assert "main" in {function["function"] for function in own}
        assert all(not function["file"].startswith("/") for function in main["functions"])
        assert str(tmp_path) not in str(answer)
        place.ask(f"jobs/{job}/cancel", {"by": OWNER, "reason": "seen"})
        place.wait_until_nothing_bills()
