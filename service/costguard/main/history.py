"""The history of closed days, built from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from costguard.checkpoints.archives import StoredArchives
from costguard.main.checkpoints import PRIVATE, access_of
from costguard.settings import Settings
from costguard.spend.focus import UNKNOWN
from costguard.spend.history.closed_days import History


def history_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> History | None:
    """Returns None where the settings name no place for it."""
    section = settings.history
    if section.location is None:
        return None
    store = StoredArchives(section.location, access_of(settings, environ), PRIVATE)
    return History(store, section.after, settings.bill.billing_account or UNKNOWN)
