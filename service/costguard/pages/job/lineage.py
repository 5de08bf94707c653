"""The lineage of a job, as its page shows it."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.listing.lineage import Lineage, lineage_of
from costguard.ledger.accrual import accrual_at
from costguard.pages.page import Source


def lineage_of_job(source: Source, job_id: str, now: datetime) -> Lineage | None:
    """Returns what it started from and what started from it; None where it stands alone."""
    with source.database.read() as connection:
        lineage = lineage_of(connection, accrual_at(connection, now), job_id)
    return None if lineage is None or lineage.is_alone else lineage
