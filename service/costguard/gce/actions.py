"""Compute Engine as the engine's `Actuator`: a look at one VM, and the requests that change it."""

from __future__ import annotations

from costguard.errors import BadAnswer
from costguard.gce.convert import status_of
from costguard.gce.fields import Garbled, moment_or_none
from costguard.gce.official import Official
from costguard.model.observation import Sighting


class ComputeActuator:
    """Thread-safe. Nothing is repeated here: whether to ask again is for the caller to decide.

    CloudUnavailable means that it may have begun; after any other CloudError it has not.
    """

    def __init__(self, official: Official) -> None:
        self._official = official

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM that has this address now; None where there is none."""
        found = self._official.instance(project, zone, name)
        if found is None:
            return None
        try:
            started_at = moment_or_none(found.last_start_timestamp)
        except Garbled as error:
            raise BadAnswer(
                f"Reading instance {name} in {zone} of project {project}: its last start {error}."
            ) from None
        return Sighting(str(found.id), status_of(found.status), started_at, dict(found.labels))

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to stop it. The operation's id. By its numeric id, no other VM can be stopped instead."""
        return self._official.begin("stop", project, zone, instance, request_id)
