"""A sweep of four members in a ledger: two launched, of which one has succeeded and one has failed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.jobs.job_service import JobSetup, asked

from costguard.jobs.rows import job_rows
from costguard.model.job import CheckpointPlan, JobState
from costguard.model.money import Money
from costguard.model.sweep import Halving, Sweep
from costguard.sweeps.members import SweepOrder
from costguard.sweeps.turn import SweepsTurn

ID = "s7k2m9q4"
HALVING = Halving(3, "val_loss", "")


def order(**changed: object) -> SweepOrder:
    """Two learning rates with two seeds, two members at once."""
    template = asked(
        command=("python", "train.py", "--lr", "{lr}", "--seed", "{seed}"),
        checkpoint=CheckpointPlan(
            "gs://lab/{sweep}/{lr}-{seed}", "--from_checkpoint {checkpoint}", uploads_itself=True
        ),
    )
    values = {
        "template": template,
        "grid": {"lr": ("1e-4", "3e-4"), "seed": ("1", "2")},
        "name": "lr",
        "at_once": 2,
        "halving": HALVING,
    }
    return SweepOrder(**{**values, **changed})  # type: ignore[arg-type]


def tell(office: JobSetup) -> Sweep:
    """Members 1 and 2 are launched as sm1 and sm2; sm1 succeeds, and sm2 fails."""
    before, office.sweep_ids = office.sweep_ids, iter((ID,))
    sweep, _ = office.sweeps.submit(order(), Money.of("40"), None, "cli")
    office.sweep_ids = before
    SweepsTurn(office.database, office.clock, _ids().__next__).run()
    now = office.clock.now()
    with office.database.write() as connection:
        job_rows.set_state(connection, "sm1", JobState.SUCCEEDED, "finished with code 0", None, now)
        job_rows.set_state(connection, "sm2", JobState.FAILED, "the command failed with code 3", None, now)
    return sweep


def _ids() -> Iterator[str]:
    return (f"sm{number}" for number in range(1, 100))
