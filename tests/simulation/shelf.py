"""The checkpoints of simulated jobs in their bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState, Framework, Listing, LookFor


@dataclass
class Shelf:
    """The checkpoints in the bucket, by location: step and when it was written. It is the port `Checkpoints`."""

    saved: dict[str, dict[int, datetime]] = field(default_factory=dict)

    def save(self, location: str, step: int, at: datetime) -> None:
        self.saved.setdefault(location, {}).setdefault(step, at)

    def listing(self, location: str) -> Listing:
        return Listing(location, {})

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        del look_for, earlier, examine
        checkpoints = tuple(
            Checkpoint(
                framework=Framework.HUGGING_FACE,
                name=f"checkpoint-{step}",
                resume_from=f"{location}/checkpoint-{step}",
                step=step,
                state=CheckpointState.COMPLETE,
                reasons=(),
                written_at=at,
                size=100,
                files=3,
            )
            for step, at in sorted(self.saved.get(location, {}).items(), reverse=True)
        )
        return CheckpointLook(location, Listing(location, {}), checkpoints, checkpoints[0] if checkpoints else None)
