"""The VM that a path names."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path

from costguard.api.deps import Given
from costguard.api.fields import Text
from costguard.ledger import fleet_rows

Project = Annotated[Text, Path()]


def _named(
    deps: Given, project: Project, gce_id: Annotated[Text, Path(description="Google's numeric id, or the VM's name.")]
) -> str:
    with deps.database.read() as connection:
        return fleet_rows.gce_id_of(connection, project, gce_id)


GceId = Annotated[str, Depends(_named)]  # also where the path has its name
