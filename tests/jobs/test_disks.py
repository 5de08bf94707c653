"""A disk that fills up: a warning before, once for each run, and the reason afterwards."""

from __future__ import annotations

from tests.jobs.test_slack_counts import office
from tests.jobs.world import world

GIB = 1 << 30


def machine(free: int) -> dict[str, object]:
    return {"disk_free_bytes": free, "disk_total_bytes": 100 * GIB, "disk_mount": "/"}


def test_a_disk_that_runs_full_is_warned_of_once_a_run(sqlite_url: str) -> None:
    """No warning comes while there is room, and none again with each heartbeat."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start("cg-j1-1")
        for free in (60 * GIB, 9 * GIB, 8 * GIB, 0):
            w.say("cg-j1-1", ("heartbeat", {"is_running": True, "machine": machine(free)}))
        (warning,) = w.events("DiskNearlyFull")
        assert warning.text == (
            "The VM of job bert in us-central1-a runs out of disk: disk nearly full: 9.0 GiB of 100.0 GiB left on /."
        )


def test_its_owner_is_warned_in_slack_and_told_why_it_failed(sqlite_url: str) -> None:
    """The card of the job's thread shows the disk, and the failure names it: two messages, and one to the team."""
    with office(sqlite_url) as at_work:
        at_work.jobs.submit(max_crashes=0)
        name = at_work.attempt(1)
        at_work.jobs.say(name, ("heartbeat", {"is_running": True, "machine": machine(9 * GIB)}))
        at_work.live(1)
        (card,) = at_work.owners
        assert "nearly full: 9.0 GiB of 100.0 GiB left on /" in str(card.blocks)
        at_work.jobs.say(name, ("exit", {"reason": "exited", "code": 1, "machine": machine(0)}))
        at_work.live(5)
        _, failed = at_work.owners
        assert "disk full: 0 bytes left on /" in str(failed.blocks)
        (team,) = at_work.channels
        assert "disk full: 0 bytes left on /" in str(team.blocks)
