"""A guard whose clock runs faster sees when a checkpoint was written by its own clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from costguard.checkpoints.client import InScaledTime
from costguard.clock import SystemClock
from costguard.main.checkpoints import checkpoints
from costguard_vm.model.checkpoint import Framework, LookFor

LOOK_FOR = LookFor(Framework.FILES, "ckpt_{step}.txt")


class Still(SystemClock):
    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_ages_run_as_fast_as_the_clock(tmp_path: Path, speed: float) -> None:
    """A file written ten of the machine's seconds ago is ten minutes old by a clock of sixty times the speed."""
    (tmp_path / "ckpt_5.txt").write_text("state")
    written = datetime.fromtimestamp((tmp_path / "ckpt_5.txt").stat().st_mtime, UTC)
    fleet = datetime(2030, 1, 1, tzinfo=UTC)
    reach = InScaledTime(checkpoints(None, {}), Still(fleet), speed, Still(written + timedelta(seconds=10)))
    look = reach.look(str(tmp_path), LOOK_FOR, reach.listing(str(tmp_path)))
    assert look.resume is not None
    assert look.resume == look.checkpoints[0]
    assert abs(fleet - look.resume.written_at - timedelta(seconds=10) * speed) < timedelta(milliseconds=1) * speed


def test_a_checkpoint_has_one_time_in_all_looks(tmp_path: Path) -> None:
    """The two clocks are never read at quite the same moment; otherwise each look would show a new checkpoint."""
    (tmp_path / "ckpt_5.txt").write_text("state")
    clock = Still(datetime(2030, 1, 1, tzinfo=UTC))
    reach = InScaledTime(checkpoints(None, {}), clock, 60.0, Still(datetime.now(UTC)))  # noqa: TID251 - the file's clock
    first = reach.look(str(tmp_path), LOOK_FOR).resume
    clock._moment += timedelta(milliseconds=30)
    again = reach.look(str(tmp_path), LOOK_FOR).resume
    assert first is not None
    assert first == again
