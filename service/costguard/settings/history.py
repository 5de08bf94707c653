"""[history]: where closed days go as Parquet, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

from costguard.settings.jobs import place
from costguard.settings.values import Duration, Section, between


class HistorySection(Section):
    """The bucket or folder of closed days, none without it, and how long after its end a UTC day is written."""

    location: Annotated[str, AfterValidator(place)] | None = None
    after: Annotated[Duration, between(timedelta(hours=1), timedelta(days=60))] = timedelta(days=2)
