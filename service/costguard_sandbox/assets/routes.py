"""Searches of organisations and folders, whether the account may make them there, and the history of assets."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from starlette.routing import Route

from costguard_sandbox.assets.history import history
from costguard_sandbox.assets.inventory import SUPPORTED, AssetIndex
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_argument
from costguard_sandbox.gce.responses import paginate, position_of
from costguard_sandbox.gce.routes.call import ApiCall, compute, control

_PERMISSION = "cloudasset.assets.searchAllResources"
_FIELDS = frozenset(
    {
        *("name", "assetType", "project", "displayName", "description", "additionalAttributes", "location", "labels"),
        *("networkTags", "kmsKey", "createTime", "updateTime", "state", "folders", "organization", "tags"),
        *("parentFullResourceName", "parentAssetType"),
    }
)


def routes(cloud: Cloud, index: AssetIndex) -> list[Route]:
    made = [control("/sandbox/assets", partial(_settings, index), cloud, ("GET", "POST"))]
    for kind in ("organizations", "folders"):
        search, test = partial(_search, index, kind), partial(_test, index, kind)
        made += [
            compute(f"/{kind}/{{number}}:searchAllResources", search, cloud, root="/v1"),
            compute(f"/{kind}/{{number}}:testIamPermissions", test, cloud, "POST", takes_body=True, root="/v3"),
        ]
    for kind, name in (("organizations", "number"), ("projects", "project")):
        handler = partial(_history, index, kind)
        made.append(compute(f"/{kind}/{{{name}}}:batchGetAssetsHistory", handler, cloud, root="/v1"))
    return made


def _history(index: AssetIndex, kind: str, call: ApiCall) -> Any:
    place = f"{kind}/{call.params['number' if kind == 'organizations' else 'project']}"
    call.cloud.faults.refuse_page("", call.path, 1)
    return history(index, place, call)


def _search(index: AssetIndex, kind: str, call: ApiCall) -> Any:
    place = f"{kind}/{call.params['number']}"
    if not call.cloud.rights.may(place, _PERMISSION) or not index.is_known(place):
        # For what is not there Google answers the same: who may not look does not learn whether it exists.
        denied = f"Permission '{_PERMISSION}' denied on resource '{place}' (or it may not exist)."
        text = f"Request denied by Cloud IAM. {denied}"
        raise Refused(403, "", text, status="PERMISSION_DENIED")
    wanted = call.query.getlist("assetTypes")
    if unknown := sorted(set(wanted) - set(SUPPORTED)):
        raise bad_argument(f"No supported asset type matches the input: {', '.join(unknown)}.")
    mask = [name for name in call.query.get("readMask", "").split(",") if name]
    if bad := sorted(set(mask) - _FIELDS - {"*"}):
        raise bad_argument(f"Invalid field path in read_mask: {', '.join(bad)}.")
    size = call.query.get("pageSize", "0")
    if not size.lstrip("-").isdecimal():
        raise bad_argument(f"Invalid value at 'page_size' (TYPE_INT32), \"{size}\"")
    token = call.query.get("pageToken")
    # The number of the page, as the faults count it: by the position at which it starts.
    per_page = min(int(size), 500) if int(size) > 0 else 100
    call.cloud.faults.refuse_page("", call.path, (position_of(token) // per_page if token else 0) + 1)
    assets = index.search(call.cloud, place, frozenset(wanted or SUPPORTED))
    results, after = paginate(assets, per_page, token)
    if mask and "*" not in mask:
        results = [{key: value for key, value in one.items() if key in mask} for one in results]
    answer: dict[str, Any] = {"results": results} if results else {}
    return answer if after is None else {**answer, "nextPageToken": after}


def _test(index: AssetIndex, kind: str, call: ApiCall) -> Any:
    place = f"{kind}/{call.params['number']}"
    names = call.body.get("permissions")
    if not isinstance(names, list) or not names:
        raise bad_argument("permissions must be a list of names.")
    if not index.is_known(place):
        raise Refused(403, "", "The caller does not have permission", status="PERMISSION_DENIED")
    granted = call.cloud.rights.granted(place, [str(name) for name in names])
    return {"permissions": granted} if granted else {}


def _settings(index: AssetIndex, call: ApiCall) -> Any:
    """POST {"lag_seconds": 120} and {"folder": NUMBER, "projects": [...]} set the index up; GET shows it."""
    body = call.body
    if call.method == "POST":
        lag, folder, projects = body.get("lag_seconds"), body.get("folder"), body.get("projects")
        if isinstance(lag, int | float) and not isinstance(lag, bool) and lag >= 0:
            index.lag = timedelta(seconds=lag)
        elif isinstance(folder, str) and folder.isdecimal() and isinstance(projects, list):
            index.folders.update(dict.fromkeys(map(str, projects), folder))
        else:
            raise bad_argument('expected {"lag_seconds": SECONDS} or {"folder": NUMBER, "projects": [...]}')
    return {
        "organization": index.organization,
        "lag_seconds": index.lag.total_seconds(),
        "folders": dict(sorted(index.folders.items())),
        "hidden": sorted(index.hidden),
    }
