"""The events of searches for projects. Pure."""

from __future__ import annotations

from datetime import datetime

from costguard.ledger.discovery.rules import WatchedProject
from costguard.model.event import Event, new_event
from costguard.model.observation import Unread


def place_text(place: str) -> str:
    """`organisation 123` of `organizations/123`, and `folder 123` of `folders/123`."""
    kind, _, number = place.partition("/")
    return f"{'organisation' if kind == 'organizations' else 'folder'} {number}"


def tell_found(row: WatchedProject, now: datetime) -> Event:
    """The event that a search showed a project, for the first time or again."""
    return new_event(
        "ProjectFound",
        now,
        f"{row.project} was found by a search of Asset Inventory, and is watched from the next pass on.",
        *(row.project, now.isoformat()),
        project=row.project,
        data={"number": row.number},
    )


def tell_unnamed(number: str, now: datetime) -> Event:
    """The event, once for each number, that a project has VMs and no search showed its id."""
    return new_event(
        "ProjectNotNamed",
        now,
        f"A search found VMs in project number {number} and did not show its id, so it is not watched. Look up the id "
        f"with `gcloud projects describe {number}`, and list it under [watch] projects.",
        number,
        data={"number": number},
    )


def tell_search(place: str, before: str, unread: Unread | None, now: datetime) -> Event | None:
    """The event that a place cannot be searched any more, for one kind of reason, or can be again."""
    if unread is None and before:
        text = f"The projects of {place_text(place)} can be searched again."
        return new_event("SearchResumed", now, text, place, now.isoformat(), data={"place": place})
    if unread is None or unread.code == before:
        return None
    text = f"{unread.reason} The projects that are known of {place_text(place)} stay watched."
    return new_event(
        "SearchFailed", now, text, place, unread.code, now.isoformat(), data={"place": place, "code": unread.code}
    )
