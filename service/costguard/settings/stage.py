"""[stage]: buckets near the VMs, in which the data of jobs is kept that is fetched from its source once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from costguard.model.data import StageRules
from costguard.settings.jobs import place
from costguard.settings.values import Duration, Section, between, matching

_DAY = timedelta(days=1)
_GIB = 1 << 30
_MOST_GIB = 1 << 20  # a PiB

Place = Annotated[str, AfterValidator(place)]
Location = Annotated[str, AfterValidator(matching(r"[a-z0-9-]{2,40}", 'a location such as "us-central1" or "eu"'))]


class StageSection(Section):
    """`regions` names a bucket for VMs of a region; others use `bucket`. Without either nothing is staged."""

    bucket: Place | None = None
    location: Location | None = None
    regions: Mapping[Location, Place] = Field(default_factory=dict)
    keep: Annotated[Duration, between(_DAY, 365 * _DAY)] = 14 * _DAY
    max_gib: Annotated[int, Field(ge=1, le=_MOST_GIB)] | None = None
    from_gib: Annotated[int, Field(ge=0, le=_MOST_GIB)] = 1

    @property
    def rules(self) -> StageRules:
        return StageRules(
            bucket=self.bucket or "",
            location=self.location or "",
            regions=dict(self.regions),
            keep=self.keep,
            most=None if self.max_gib is None else self.max_gib * _GIB,
            least=self.from_gib * _GIB,
        )
