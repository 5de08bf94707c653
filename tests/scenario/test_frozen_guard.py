"""A guard that stood still, as with a closed lid: it hears its agents first, and gives up no VM for its own silence."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from urllib.error import HTTPError

from tests.sandbox.guest.served_vms import pids_of
from tests.scenario.training_ground import SPEED, TrainingWorld, ground
from tests.waiting import freeze

SILENCE = timedelta(minutes=20)  # of the fleet's clock


def test_a_frozen_guard_gives_up_no_vm_for_its_own_silence(tmp_path: Path) -> None:
    """SIGSTOP for longer than an agent may be silent, then SIGCONT, with one job whose agent speaks only later.

    The guard looks again before it hears the agent, and silence counts from then on. On a machine so slow that all of
    it has passed by then, nothing is to be seen, and the job succeeds on whatever VM.
    """
    with ground(tmp_path, silence="20m") as place:
        go = tmp_path / "go"
        job = place.launch("--steps", "4", "--every", "2", "--last-after", str(go))
        place.wait((place.step(2) / "DONE").exists, "a checkpoint is saved")
        guard, agents = place.guard_pids, pids_of(tmp_path / "vms")
        assert len(guard) == 3  # the watch, and the processes for pages and for reports
        assert agents
        before = place.ask(f"jobs/{job}")["attempts"]
        for pid in [*agents, *guard]:  # agents first: what they sent meanwhile would be heard at once
            freeze(pid)
        Event().wait(1.25 * SILENCE.total_seconds() / SPEED)
        thawed_at = place.world.now
        _send(guard, signal.SIGCONT)
        try:
            place.wait(lambda: _has_looked(place, thawed_at), "the guard has looked twice")
            attempts, now = place.ask(f"jobs/{job}")["attempts"], place.world.now
            if now < thawed_at + SILENCE:
                assert [one["outcome"] for one in attempts] == [one["outcome"] for one in before]
        finally:
            _send(agents, signal.SIGCONT)
        go.touch()
        place.wait_for_state(job, "succeeded")


def _has_looked(place: TrainingWorld, since: datetime) -> bool:
    """A minute of the fleet's clock after it went on, in which decisions about jobs are made every five seconds."""
    try:
        passed = place.ready["last_pass_at"]
    except HTTPError:  # not ready: its passes are overdue
        return False
    return passed is not None and datetime.fromisoformat(passed) > since + timedelta(minutes=2)


def _send(pids: list[int], sign: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, sign)
