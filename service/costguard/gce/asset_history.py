"""Cloud Asset Inventory's history of resources: what a VM or a disk was, for 35 days, also when it is gone.

`batchGetAssetsHistory` of cloudasset v1, for up to 100 names at once (its discovery document). One name that it does
not know makes it refuse all of them with INVALID_ARGUMENT, so that half of them are asked for again, and half of these.
Google allows 100 calls a minute for each project that calls, and 180 for each organisation:
https://cloud.google.com/asset-inventory/docs/quota. The parent is an organisation or a project, never a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, RequestRefused
from costguard.gce.errors import ASSETS
from costguard.gce.fields import UNREADABLE, Garbled, moment, short
from costguard.gce.session import Deadline, Http
from costguard.model.moments import z_text
from costguard.model.observation import AssetAnswer, AssetState

AT_ONCE = 100
_LONGEST = 7_500  # characters of names in one address: servers refuse longer ones
KEPT = timedelta(days=35)
_MARGIN = timedelta(minutes=10)  # a window may not begin before what is kept: clocks differ, and calls take a while
_FIELDS = "assets(window,deleted,asset(name,resource(data)))"
_SERVICE = replace(ASSETS, tells_refusals=True)


def read_history(
    http: Http, parent: str, names: Sequence[str], now: datetime, deadline: Deadline, calls: int
) -> AssetAnswer:
    """Reads the states of these assets, in at most so many calls. Raises CloudError where one of them fails.

    `parent` is `organizations/N` or `projects/P`; `names` are full names, `//compute.googleapis.com/projects/...`.
    """
    states: list[AssetState] = []
    answered: list[str] = []
    left = list(_batches(names))
    while left and calls > 0:
        some = left.pop(0)
        calls -= 1
        try:
            states += _asked(http, parent, some, now, deadline)
        except RequestRefused:
            if len(some) > 1:
                left[:0] = [some[: len(some) // 2], some[len(some) // 2 :]]
                continue
        answered += some
    return AssetAnswer(tuple(states), frozenset(answered), calls)


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for name in names:
        if some and (len(some) == AT_ONCE or sum(map(_length, some)) + _length(name) > _LONGEST):
            yield some
            some = []
        some.append(name)
    if some:
        yield some


def _length(name: str) -> int:
    return len(quote(name, safe="")) + len("&assetNames=")


def _asked(http: Http, parent: str, names: list[str], now: datetime, deadline: Deadline) -> list[AssetState]:
    what = "Reading the history of assets"
    params = {
        "assetNames": names,
        "contentType": "RESOURCE",
        "readTimeWindow.startTime": z_text(now - KEPT + _MARGIN),
        "prettyPrint": "false",
        "fields": _FIELDS,
    }
    path = f"/v1/{parent}:batchGetAssetsHistory"
    answer = http.get_json(path, params, project=parent, what=what, deadline=deadline, service=_SERVICE)
    try:
        return list(_states(answer.get("assets") or []))
    except UNREADABLE as error:
        raise BadAnswer(f"{what} of {parent}: the answer holds what is no asset ({error}).") from error


def _states(assets: Any) -> Iterator[AssetState]:
    for one in assets:
        asset, window = one.get("asset") or {}, one.get("window") or {}
        name = asset.get("name")
        if not isinstance(name, str):
            raise Garbled(f"{short(name)} is no name")
        data = (asset.get("resource") or {}).get("data")
        begins = window.get("startTime")
        yield AssetState(
            name,
            data if isinstance(data, dict) else {},
            None if begins is None else moment(begins),
            one.get("deleted") is True,
        )
