"""Cloud Asset Inventory: which projects of an organisation or a folder hold what Costguard accounts for.

`searchAllResources` of cloudasset v1, in pages of 500, the most that Google gives. A resource's `project` is always the
project's number, and its name holds the id or the number (seen in recorded answers). A project's own result has both,
so projects are asked for in the same search: the id is the end of its name, or `projectId` of its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from costguard.errors import BadAnswer, CloudError
from costguard.gce.errors import ASSETS, ServiceOff, owner_text
from costguard.gce.fields import UNREADABLE, Garbled, short
from costguard.gce.pages import walk
from costguard.gce.session import Deadline, Http
from costguard.model.mending import enabling
from costguard.model.observation import FoundProject, PlaceSearch, Unread

PROJECT = "cloudresourcemanager.googleapis.com/Project"
# What bills by the hour and stands in the ledger or in what nothing uses: VMs, TPU nodes, and reservations, which cost
# as much without a VM. Disks would double the pages, as every VM has one; a project whose disks alone are left is
# listed under [watch] projects.
BILLED = ("compute.googleapis.com/Instance", "compute.googleapis.com/Reservation", "tpu.googleapis.com/Node")
_PAGE_SIZE = "500"
_MOST_PAGES = 5_000  # two and a half million resources
SEARCH_BUDGET_S = 480.0  # of one place: less than the time between two searches
_FIELDS = "results(assetType,project,name,parentFullResourceName,additionalAttributes/projectId),nextPageToken"
_MASK = "assetType,project,name,parentFullResourceName,additionalAttributes"
_NUMBER = re.compile(r"projects/(\d+)")
_ID = re.compile(r"//[a-z.]+/projects/((?:[a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]+)(?:/|$)")
_OFF_IN = re.compile(r"in project (\S+)")


def search_place(http: Http, place: str, deadline: Deadline) -> PlaceSearch:
    """Finds the projects of `organizations/N` or `folders/N`. Never raises a CloudError: see `PlaceSearch`."""
    ids: dict[str, str] = {}  # ids by number; "" while no result has shown one
    billed: set[str] = set()
    try:
        for results in _pages(http, place, deadline):
            for result in results:
                _read(result, ids, billed)
    except ServiceOff as error:
        return _failed(place, ServiceOff(error.message, f"Run `{enabling(ASSETS.host, _home(error.message))}`."))
    except UNREADABLE as error:
        return _failed(
            place, BadAnswer(f"Searching {owner_text(place)}: the answer holds what is no resource ({error}).")
        )
    except CloudError as error:
        return _failed(place, error)
    return PlaceSearch(place, tuple(FoundProject(number, ids[number]) for number in sorted(billed)))


def _pages(http: Http, place: str, deadline: Deadline) -> Iterator[list[Any]]:
    what = "Searching for projects"
    params: dict[str, Any] = {
        "assetTypes": [PROJECT, *BILLED],
        "pageSize": _PAGE_SIZE,
        "readMask": _MASK,
        "prettyPrint": "false",
        "fields": _FIELDS,
    }

    def ask(token: str) -> dict[str, Any]:
        with_token = {**params, "pageToken": token} if token else params
        path = f"/v1/{place}:searchAllResources"
        return http.get_json(path, with_token, project=place, what=what, deadline=deadline, service=ASSETS)

    for answer in walk(ask, lambda clause: BadAnswer(f"{what} of {owner_text(place)}: {clause}."), _MOST_PAGES):
        results = answer.get("results") or []
        if not isinstance(results, list):
            raise BadAnswer(f"{what} of {owner_text(place)}: its results are {type(results).__name__}, not a list.")
        yield results


def _read(result: Any, ids: dict[str, str], billed: set[str]) -> None:
    """Notes a result's project, by number and, where it says it, by id. Raises Garbled."""
    if not isinstance(result, dict):
        raise Garbled(f"{short(result)} is not an object")
    number = _NUMBER.fullmatch(str(result.get("project")))
    if number is None:
        raise Garbled(f"project {short(result.get('project'))} is not projects/NUMBER")
    kind = result.get("assetType")
    if kind in BILLED:
        billed.add(number[1])
    if not ids.setdefault(number[1], ""):
        ids[number[1]] = _id_of(result)


def _id_of(result: Mapping[str, Any]) -> str:
    """The id that the name of a resource, or of what holds it, has; "" where all give the number."""
    for name in (result.get("name"), result.get("parentFullResourceName")):
        if match := _ID.match(str(name)):
            return match[1]
    attributes = result.get("additionalAttributes")
    given = attributes.get("projectId") if isinstance(attributes, dict) else None
    return given if isinstance(given, str) and _ID.match(f"//x/projects/{given}") else ""


def _failed(place: str, error: CloudError) -> PlaceSearch:
    return PlaceSearch(place, unread=Unread("project", str(error), error.code))


def _home(message: str) -> str:
    """The project whose API is off, as the answer names it: that of the account, and none that is searched."""
    match = _OFF_IN.search(message)
    return match[1] if match is not None else "PROJECT"
