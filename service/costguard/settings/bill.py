"""[bill]: where Google's billing export is read from."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from costguard.settings.values import Duration, Endpoint, ProjectId, Section, between, matching

BillTableName = Annotated[
    str,
    AfterValidator(
        matching(
            r"[a-z0-9.:-]{6,}\.[A-Za-z0-9_]+\.[A-Za-z0-9_-]+",
            "a BigQuery table as PROJECT.DATASET.TABLE, such as acme-billing.billing.gcp_billing_export_resource_v1_X",
        )
    ),
]
_GIB = 2**30


class BillSection(Section):
    """The bill's table. Without a table nothing is read but by `costguard bill read`."""

    table: BillTableName | None = None
    billed_project: ProjectId | None = None
    location: (
        Annotated[str, AfterValidator(matching(r"[A-Za-z0-9-]+", "a location such as EU or europe-west4"))] | None
    ) = None
    most_gib: Annotated[int, Field(ge=1, le=10_000)] = 20
    first_days: Annotated[int, Field(ge=1, le=800)] = 45
    read_every: Annotated[Duration, between(timedelta(hours=1), timedelta(days=30))] = timedelta(days=1)
    endpoint: Endpoint | None = None  # None: Google's, with credentials

    @property
    def billing_account(self) -> str | None:
        """Returns the account as Google writes it, out of the table's name; None where the table has a name of
        its own.
        """
        match = re.search(r"_([0-9A-F]{6})_([0-9A-F]{6})_([0-9A-F]{6})$", self.table or "")
        return "-".join(match.groups()) if match else None

    @property
    def most_bytes(self) -> int:
        """Returns the most bytes that one query may bill."""
        return self.most_gib * _GIB
