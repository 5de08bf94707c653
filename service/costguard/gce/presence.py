"""Asks whether one VM is still there.

It reads four fields by itself: a guard that only watches never loads google-cloud-compute, which would take 75 to
120 MB as soon as one VM is missing from a list.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from costguard.errors import CloudError, NotFound
from costguard.gce.errors import missing_resource
from costguard.gce.session import Deadline, Http
from costguard.model.instance import InstanceKey
from costguard.model.observation import Presence

log = logging.getLogger(__name__)

_FIELDS = {"fields": "kind,id,name,zone"}


def vm_presence(http: Http, key: InstanceKey, zone: str, name: str, deadline: Deadline) -> Presence:
    """Asks once for this VM by its address, and compares ids. Only Google's "was not found" of the VM itself, or
    another id in its place, makes it gone. Never raises a CloudError.
    """
    what = f"Reading instance {name} in {zone}"
    path = f"/compute/v1/projects/{quote(key.project, safe=':')}/zones/{quote(zone)}/instances/{quote(name)}"
    try:
        body = http.get_once(path, _FIELDS, project=key.project, what=what, deadline=deadline)
    except CloudError as error:
        if isinstance(error, NotFound) and missing_resource(error.message).endswith(f"/instances/{name}"):
            return Presence.GONE
        log.warning("whether %s in %s of %s is still there is not known: %s", name, zone, key.project, error)
        return Presence.NOT_KNOWN
    if not _is_vm(body, zone, name):
        log.warning("whether %s in %s of %s is still there is not known: what came is no VM", name, zone, key.project)
        return Presence.NOT_KNOWN
    return Presence.THERE if body["id"] == key.gce_id else Presence.GONE


def _is_vm(body: Mapping[str, Any], zone: str, name: str) -> bool:
    """Says whether it is a VM at this address: a proxy may answer 200 in Google's place, with something else."""
    gce_id = body.get("id")
    is_here = str(body.get("zone") or zone).rpartition("/")[2] == zone
    has_id = isinstance(gce_id, str) and gce_id.isdecimal() and int(gce_id) > 0
    return body.get("kind") == "compute#instance" and has_id and body.get("name") == name and is_here
