"""The metadata server of each VM, under /metadata/ID/computeMetadata/v1/: a tree of directories and values."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.guest.identity import document_of

ROOT = "computeMetadata/v1"
_TOKEN_LASTS_S = 3599
_IDENTITY_PATH = re.compile(r"instance/service-accounts/([^/]+)/identity")


Directory = dict[str, Any]
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}


@dataclass(frozen=True, slots=True)
class Json:
    """A value that is always shown as JSON; a secret one is left out of recursive answers."""

    value: Any
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer. `is_redirect`: a directory was requested without its slash."""

    text: str
    is_json: bool = False
    is_redirect: bool = False

    @property
    def etag(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def metadata_path(vm: VM) -> str:
    return f"/metadata/{vm.id}/{ROOT}"


def attributes(vm: VM) -> dict[str, str]:
    """The custom metadata of the VM."""
    items = (vm.given.get("metadata") or {}).get("items") or []
    return {str(item.get("key", "")): str(item.get("value", "")) for item in items}


def find(vm: VM, path: str, *, is_recursive: bool = False, as_json: bool | None = None) -> Entry | None:
    """The value or directory at a path below `computeMetadata/v1/`; None where there is nothing."""
    node: Any = _tree(vm)
    for name in path.strip("/").split("/") if path.strip("/") else ():
        if isinstance(node, list):
            node = {str(index): one for index, one in enumerate(node)}
        if not isinstance(node, dict) or name not in node:
            return None
        node = node[name]
    if not isinstance(node, dict) and not _is_directories(node):
        return None if path.endswith("/") else _value(node, as_json is True)
    if is_recursive:
        if as_json is False:
            return Entry("".join(f"{line}\n" for line in _lines("", node)))
        return Entry(json.dumps(_public(node), separators=(",", ":")), is_json=True)
    if path and not path.endswith("/"):
        return Entry("", is_redirect=True)
    return Entry("".join(f"{name}\n" for name in _listed(node)))


def _value(node: Any, as_json: bool) -> Entry:
    if isinstance(node, Json):
        return Entry(json.dumps(node.value, separators=(",", ":")), is_json=True)
    if as_json:
        return Entry(json.dumps(node), is_json=True)
    return Entry("".join(f"{line}\n" for line in node) if isinstance(node, list) else str(node))


def _is_directories(node: Any) -> bool:
    return isinstance(node, list) and bool(node) and isinstance(node[0], dict)


def _listed(node: Any) -> list[str]:
    if isinstance(node, list):
        return [f"{index}/" for index, _ in enumerate(node)]
    is_directory = {name: isinstance(value, dict) or _is_directories(value) for name, value in node.items()}
    return [f"{name}/" if is_directory[name] else name for name in sorted(node)]


def _lines(prefix: str, node: Any) -> list[str]:
    if isinstance(node, dict) or _is_directories(node):
        named = node.items() if isinstance(node, dict) else enumerate(node)
        return [line for name, value in named for line in _lines(f"{prefix}/{name}" if prefix else str(name), value)]
    if isinstance(node, Json) and node.is_secret:
        return []
    values = node if isinstance(node, list) else [_value(node, as_json=False).text]
    return [f"{prefix} {value}" for value in values]


def _public(node: Any, key: str = "") -> Any:
    """Converts metadata for recursive answers: names in camelCase, except those that users chose; without secrets."""
    if isinstance(node, dict):
        kept = {name: value for name, value in node.items() if not (isinstance(value, Json) and value.is_secret)}
        chosen = key in ("attributes", "service-accounts")
        return {name if chosen else _camel_case(name): _public(value, name) for name, value in kept.items()}
    if isinstance(node, list):
        return [_public(one) for one in node]
    return node.value if isinstance(node, Json) else node


def _camel_case(name: str) -> str:
    return re.sub(r"-(\w)", lambda letter: letter[1].upper(), name)


def _tree(vm: VM) -> Directory:
    number = project_number(vm.project)
    return {
        "instance": _instance(vm, f"projects/{number}"),
        "project": {"attributes": {}, "numeric-project-id": number, "project-id": vm.project},
    }


def _instance(vm: VM, project: str) -> Directory:
    scheduling = vm.scheduling
    return {
        "attributes": attributes(vm),
        "cpu-platform": vm.cpu_platform,
        "description": str(vm.given.get("description") or ""),
        "disks": [
            {
                "device-name": held.device_name,
                "index": held.index,
                "interface": held.given.get("interface", "SCSI" if held.disk else "NVME"),
                "mode": held.given.get("mode", "READ_WRITE"),
                "type": "PERSISTENT" if held.disk else "LOCAL-SSD",
            }
            for held in vm.attachments
        ],
        "hostname": str(vm.given.get("hostname") or f"{vm.name}.{vm.zone}.c.{vm.project}.internal"),
        "id": vm.id,
        "image": next((_partial(disk.source_image) for disk in vm.disks), ""),
        "machine-type": f"{project}/machineTypes/{vm.shape.machine_type}",
        "maintenance-event": vm.maintenance_event,
        "name": vm.name,
        "network-interfaces": [
            {
                "ip": given.get("networkIP") or vm.network_ip,
                "network": f"{project}/networks/{last_part(given.get('network') or 'default')}",
                **(
                    {"access-configs": [{"external-ip": vm.nat_ip, "type": "ONE_TO_ONE_NAT"}]}
                    if _has_nat(given)
                    else {}
                ),
            }
            for given in vm.given.get("networkInterfaces") or [{}]
        ],
        "preempted": _flag(vm.is_preempted),
        "scheduling": {
            "automatic-restart": _flag(scheduling["automaticRestart"]),
            "on-host-maintenance": scheduling["onHostMaintenance"],
            "preemptible": _flag(vm.is_spot),
        },
        "service-accounts": _service_accounts(vm),
        "tags": Json((vm.given.get("tags") or {}).get("items") or []),
        "zone": f"{project}/zones/{vm.zone}",
    }


def _service_accounts(vm: VM) -> Directory:
    """Returns service accounts by e-mail address, and the first one also as `default`."""
    directory: Directory = {}
    for account in vm.given.get("serviceAccounts") or ():
        email = str(account.get("email", ""))
        secret = hashlib.sha256(f"{vm.id}/{email}".encode()).hexdigest()[:32]
        token = {
            "access_token": f"sandbox-{secret}",
            "expires_in": _TOKEN_LASTS_S,
            "token_type": "Bearer",
        }
        shown = {
            "aliases": ["default"] if not directory else [],
            "email": email,
            "identity": Json("", is_secret=True),  # made for each request: see `document_of`
            "scopes": list(account.get("scopes") or ()),
            "token": Json(token, is_secret=True),
        }
        if not directory:
            directory["default"] = shown
        directory[email] = shown
    return directory


def _has_nat(interface: Mapping[str, Any]) -> bool:
    return bool(interface.get("accessConfigs"))


def _partial(link: str) -> str:
    return link[link.index("projects/") :] if "projects/" in link else link


def _flag(flag: object) -> str:
    return "TRUE" if flag else "FALSE"


def routes(cloud: Cloud) -> list[Route]:
    async def endpoint(request: Request) -> Response:
        # Without the header, or through a proxy, the request may be forged (SSRF).
        if request.headers.get("metadata-flavor", "").lower() != "google" or "x-forwarded-for" in request.headers:
            return _refusal(403, 'Missing required header "Metadata-Flavor": "Google"')
        wait_s = _seconds(request)
        if wait_s is None:
            return _refusal(400, "timeout_sec must be a number from 0 up")
        number = request.path_params["vm"]
        if _IDENTITY_PATH.fullmatch(request.path_params.get("path", "")) and not request.query_params.get("audience"):
            return _refusal(400, "non-empty audience parameter required")
        with cloud.metadata_watches.watching(number) as watch:
            entry = _entry(cloud, request)
            known_etag = request.query_params.get("last_etag") or (entry.etag if entry else "")
            ends = time.monotonic() + wait_s
            while entry is not None and entry.etag == known_etag and not cloud.metadata_watches.is_closed:
                left = ends - time.monotonic()
                if left <= 0 or not await watch.wait(None if math.isinf(left) else left):
                    break
                entry = _entry(cloud, request)
        if entry is None:
            return _refusal(404, f"The requested URL {request.url.path} was not found on this server.")
        if entry.is_redirect:
            return RedirectResponse(f"{request.url.path}/", 301, headers=_FLAVOR)
        kind = "application/json" if entry.is_json else "application/text"
        return Response(entry.text, headers={**_FLAVOR, "ETag": entry.etag, "Content-Type": kind})

    base = f"/metadata/{{vm:int}}/{ROOT}"
    return [Route(base, endpoint), Route(f"{base}/{{path:path}}", endpoint)]


def _entry(cloud: Cloud, request: Request) -> Entry | None:
    with cloud.settled():
        vm = cloud.instance_by_id(request.path_params["vm"])
        if vm is None:
            return None
        query = request.query_params
        # The root may be requested with or without its slash.
        path = request.path_params.get("path", "")
        if (match := _IDENTITY_PATH.fullmatch(path)) and (account := _service_accounts(vm).get(match[1])):
            audience, is_full = query.get("audience", ""), query.get("format") == "full"
            return Entry(document_of(vm, account["email"], audience, cloud.clock.now(), is_full=is_full))
        as_json = {"json": True, "text": False}.get(query.get("alt", ""))
        return find(vm, path, is_recursive=query.get("recursive") == "true", as_json=as_json)


def _seconds(request: Request) -> float | None:
    """Returns the seconds to wait for a change: 0 by default, for ever without timeout_sec.

    None for an invalid number.
    """
    if request.query_params.get("wait_for_change") != "true":
        return 0.0
    given = request.query_params.get("timeout_sec", "")
    if not given:
        return math.inf
    return float(given) if given.isdecimal() else None


def _refusal(status: int, text: str) -> Response:
    return Response(text, status, headers=_FLAVOR, media_type="text/html; charset=UTF-8")
