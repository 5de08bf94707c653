"""Finds what was requested of Google for VMs that no listing shows: by jobs, or by entries of the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from costguard.db.transaction import Database
from costguard.errors import CloudError
from costguard.ledger.feed import kept_requests
from costguard.ledger.feed.kept_requests import KeptRequest
from costguard.model.instance import AttachedDisk, InstanceKey
from costguard.model.launch import Recipe
from costguard.model.observation import SeenOperation
from costguard.model.ports import Cloud
from costguard.model.record import VmRequested

log = structlog.get_logger(__name__)


def requests_of(
    database: Database,
    cloud: Cloud,
    project: str,
    of_jobs: Mapping[str, tuple[str, Recipe]],
    unlisted: Sequence[str],
    news: Mapping[str, Sequence[SeenOperation]],
) -> dict[str, VmRequested]:
    """Looks up what was requested, before anything is written. `news` are new operations by VM.

    A machine type that cannot be read leaves its VM without a price.
    """
    kept: dict[InstanceKey, KeptRequest] = {}
    if unlisted:
        with database.read() as connection:
            read = kept_requests.read(connection, [InstanceKey(project, gce_id) for gce_id in unlisted])
            kept = {key: one for key, one in read.items() if one.says_all}
            inserts = {
                InstanceKey(project, gce_id): op
                for gce_id in unlisted
                for op in news.get(gce_id, ())
                if op.kind == "insert" and op.error_code is None
            }
            kept |= kept_requests.of_bulks(connection, {key: op for key, op in inserts.items() if key not in kept})
    requests = {key.gce_id: one for key, one in kept_requests.vms_of(cloud, kept).items()}
    for gce_id, (zone, recipe) in of_jobs.items():
        try:
            machine = cloud.shape(project, zone, recipe.machine_type)
        except CloudError as error:
            log.warning("machine_type_not_read", machine_type=recipe.machine_type, error=str(error))
            continue
        if machine is not None:
            disk = AttachedDisk("", recipe.disk_gib, recipe.disk_type, None, boot=True, auto_delete=True)
            requests[gce_id] = VmRequested(
                recipe.shape(machine),
                recipe.provisioning_model,
                recipe.labels,
                (disk,),
                int(recipe.external_address is not False),
            )
    return requests
