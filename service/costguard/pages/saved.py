"""What the page of savings shows: Spot against on-demand, what stops saved, and what keeps cost."""

from __future__ import annotations

from datetime import datetime

from costguard.ledger.accrual import accrual_at
from costguard.pages.source import Source
from costguard.pages.spend_asked import SpendAsked
from costguard.spend.saved import Saved, saved_between
from costguard.spend.savings import KEEP_METHOD, SHADOW_METHOD, STOP_METHOD
from costguard.spend.spot import METHOD

LISTED = 200  # of each kind
METHODS = {"spot": METHOD, "stop": STOP_METHOD, "shadow": SHADOW_METHOD, "keep": KEEP_METHOD}


def saved_page(source: Source, asked: SpendAsked, now: datetime) -> Saved:
    """Everything that the page shows, read in one transaction."""
    with source.database.read() as connection:
        return saved_between(connection, accrual_at(connection, now), asked.first, asked.last, asked.scope)
