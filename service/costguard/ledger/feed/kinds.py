"""Says what a method of Compute Engine's audit log means for a VM. Pure.

The rows of `ledger/timeline.py` say which operations begin and end a run; here stands only what that table lacks.
"""

from __future__ import annotations

import re
from enum import StrEnum

from costguard.ledger.timeline import DELETES, ENDS, RESTARTS, STARTS
from costguard.model.lifetime import EndReason


class FeedKind(StrEnum):
    CREATED = "created"
    DELETED = "deleted"
    STARTED = "started"
    STOPPED = "stopped"  # suspended too
    PREEMPTED = "preempted"
    HOST_ERROR = "host_error"
    MIGRATED = "migrated"
    REPAIRED = "repaired"  # by the managed instance group that it is in
    CHANGED = "changed"
    REFUSED = "refused"  # refused at once, or failed: nothing happened
    NOISE = "noise"  # about no VM, or it changes nothing of one


_METHOD = re.compile(r"(?:(?:v\d+\w*|beta|alpha)\.)?(compute\.(instances|regionInstances)\.([A-Za-z.]+))$")
BULK = "bulkInsert"

_OF_END = {
    EndReason.STOPPED: FeedKind.STOPPED,
    EndReason.SUSPENDED: FeedKind.STOPPED,
    EndReason.RUN_TIME_LIMIT: FeedKind.STOPPED,
    EndReason.GUEST_SHUTDOWN: FeedKind.STOPPED,
    EndReason.HOST_MAINTENANCE: FeedKind.STOPPED,
    EndReason.DELETED: FeedKind.DELETED,
    EndReason.PREEMPTED: FeedKind.PREEMPTED,
    EndReason.HOST_ERROR: FeedKind.HOST_ERROR,
    EndReason.RECREATED: FeedKind.REPAIRED,
}
# System events that no listing of ours has shown: the names are those that Google counts as interruptions
# (cloud.google.com/monitoring/api/metrics_gcp: `instance/interruption_count`), as its own tests of that count list them
# (github.com/GoogleCloudPlatform/ml-auto-solutions). A VM whose local SSD is being recovered may come back.
_MORE = {
    "compute.instances.migrateOnHostMaintenance": FeedKind.MIGRATED,
    "compute.instances.instanceManagerHaltForRestart": FeedKind.REPAIRED,
    "compute.instances.baremetalCaretakerPreempted": FeedKind.PREEMPTED,
    "compute.instances.stoppedDueToPdDoubleServe": FeedKind.STOPPED,
    "compute.instances.kmsKeyError": FeedKind.STOPPED,
    "compute.instances.shredmillKeyError": FeedKind.STOPPED,
    "compute.instances.invalidVmImage": FeedKind.STOPPED,
    "compute.instances.scratchDiskCreationFailed": FeedKind.STOPPED,
    "compute.instances.localSsdInitializationError": FeedKind.STOPPED,
    "compute.instances.localSsdInitializationKeyError": FeedKind.STOPPED,
    "compute.instances.localSsdVerifyTarError": FeedKind.STOPPED,
    "compute.instances.localSsdRecoveryTimeoutError": FeedKind.STOPPED,
    "compute.instances.localSsdRecoveryFailedError": FeedKind.STOPPED,
}
# These change nothing of a VM that the ledger holds. All methods of the API with GET begin so.
_READS = re.compile(r"(?:get|list|aggregated|test)(?:[A-Z].*)?$")
_NOTHING_CHANGES = frozenset({"setIamPolicy", "sendDiagnosticInterrupt", "reportHostAsFaulty"})


def operation_type(method: str, is_system: bool) -> str | None:
    """Returns Google's `operationType` of a method's operations: `insert`, `compute.instances.preempted`, ...

    None: the method is of no VM. A bulk insert makes an insert of each VM.
    """
    parsed = _METHOD.match(method)
    if parsed is None or (parsed[2] == "regionInstances" and parsed[3] != BULK):
        return None
    if is_system or parsed[1] in _KINDS:
        return parsed[1]
    return "insert" if parsed[3] == BULK else parsed[3]


def kind_of(operation: str | None) -> FeedKind:
    """Returns the kind by the `operationType`. An unknown one changes a VM: it costs one look."""
    if operation is None or _READS.match(operation) or operation in _NOTHING_CHANGES:
        return FeedKind.NOISE
    return _KINDS.get(operation, FeedKind.CHANGED)


_KINDS = {
    **{operation: _OF_END[reason] for operation, reason in ENDS.items()},
    **dict.fromkeys(DELETES, FeedKind.DELETED),
    **dict.fromkeys(STARTS | RESTARTS, FeedKind.STARTED),
    **_MORE,
    "insert": FeedKind.CREATED,
}
