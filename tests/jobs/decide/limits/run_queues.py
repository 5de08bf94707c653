"""Plays random queues, 10,000 unless told otherwise: `python -m tests.jobs.decide.limits.run_queues 10000`."""

from __future__ import annotations

import sys
import time

from tests.jobs.decide.limits.queue_lives import QueueLife


def main(count: int) -> int:
    began, kills, starts, waits = time.monotonic(), 0, 0, 0
    least, worst = 1.0, -1
    wrong: list[str] = []
    for seed in range(count):
        life = QueueLife(seed, fair=seed % 2 == 0).run()
        wrong += [f"seed {seed}: {text}" for text in (*life.exceeded()[:1], *life.starved()[:1])]
        if life.fair and (share := life.least_share()[0]) < least:
            least, worst = share, seed
        kills, starts = kills + life.kills, starts + life.starts
        waits += sum(start > ready for job in life.jobs for ready, start in job.waits)
    if least < 0.5:
        wrong.append(f"seed {worst}: an owner was given {least:.2f} of their part")
    print(
        f"{count:,} queues, {starts:,} starts of which {waits:,} waited, {kills:,} kills of a replica, in "
        f"{time.monotonic() - began:.0f} s; the least share of a part: {least:.2f} (seed {worst})"
    )
    print(*(wrong or ["No limit was exceeded, and nobody starved."]), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
