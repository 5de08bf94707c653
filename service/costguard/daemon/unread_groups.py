"""Groups what could not be read of many projects by its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.ledger.projects import ProjectLook
from costguard.model.mending import command_for
from costguard.model.observation import Unread


@dataclass(frozen=True, slots=True)
class UnreadGroup:
    """Projects of which one part was not read for one reason.

    `part` and `command` are those of the first project; `command` is "" where no one command helps. `last_complete_at`
    is the oldest of their last complete reads; None: one was never read.
    """

    part: Unread
    command: str
    projects: Sequence[str]
    last_complete_at: datetime | None

    @property
    def is_whole(self) -> bool:
        return self.part.is_whole


def unread_groups(looks: Iterable[ProjectLook]) -> Sequence[UnreadGroup]:
    """Groups the unread parts, whole projects before all, then the most projects first.

    A reason names its project: without the name it is the same for all.
    """
    alike: dict[tuple[str, str, str], list[tuple[ProjectLook, Unread]]] = {}
    for look in looks:
        for part in look.unread:
            reason = part.reason.replace(look.project, "PROJECT")
            alike.setdefault((part.scope, part.code, reason), []).append((look, part))
    groups = [_group(members) for members in alike.values()]
    return sorted(groups, key=lambda one: (not one.is_whole, -len(one.projects), one.part.scope, one.projects[0]))


def _group(members: Sequence[tuple[ProjectLook, Unread]]) -> UnreadGroup:
    look, part = members[0]
    times = [one.last_complete_at for one, _ in members]
    complete = [time for time in times if time is not None]
    oldest = min(complete) if len(complete) == len(times) else None
    return UnreadGroup(part, command_for(look.project, part), [one.project for one, _ in members], oldest)
