"""Tests the kinds of methods of the audit log by the API's own documents and Google's own lists."""

from __future__ import annotations

import json
from pathlib import Path

import googleapiclient

from costguard.ledger.feed.kinds import FeedKind, kind_of, operation_type
from costguard.ledger.timeline import ENDS, RESTARTS, STARTS


def test_every_method_of_instances_that_only_reads_is_noise() -> None:
    """The API's own discovery document says which methods read, by GET; all spellings are alike."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    methods = json.loads((folder / "compute.v1.json").read_text("utf-8"))["resources"]["instances"]["methods"]
    for name, method in methods.items():
        for prefix in ("v1.", "beta.", "alpha.", ""):
            kind = kind_of(operation_type(f"{prefix}compute.instances.{name}", is_system=False))
            reads = method["httpMethod"] == "GET" or name in {
                "testIamPermissions", "setIamPolicy", "sendDiagnosticInterrupt", "reportHostAsFaulty",
            }  # fmt: skip
            assert (name, kind is FeedKind.NOISE) == (name, reads)


def test_every_operation_that_begins_or_ends_a_run_has_a_kind() -> None:
    """The ledger's own table decides: nothing that it counts is a mere change, or noise."""
    for operation in {*ENDS, *STARTS, *RESTARTS}:
        assert kind_of(operation) not in (FeedKind.CHANGED, FeedKind.NOISE)
    assert kind_of("compute.instances.deferredDelete") is FeedKind.DELETED
    assert kind_of("compute.instances.repair.recreateInstance") is FeedKind.REPAIRED
    assert kind_of("compute.instances.guestTerminate") is FeedKind.STOPPED
    assert kind_of("resume") is FeedKind.STARTED


def test_every_interruption_that_google_counts_is_known_by_name() -> None:
    """Google's own tests of `instance/interruption_count` name these events of the audit log (ml-auto-solutions,
    dags/tpu_observability, in public): each ends or moves a run, and none is a mere change.
    """
    names = (
        "preempted", "hostError", "migrateOnHostMaintenance", "terminateOnHostMaintenance", "guestTerminate",
        "baremetalCaretakerPreempted", "instanceManagerHaltForRestart", "stoppedDueToPdDoubleServe", "kmsKeyError",
        "shredmillKeyError", "invalidVmImage", "scratchDiskCreationFailed", "localSsdInitializationError",
        "localSsdInitializationKeyError", "localSsdVerifyTarError", "localSsdRecoveryTimeoutError",
        "localSsdRecoveryFailedError",
    )  # fmt: skip
    kinds = {name: kind_of(operation_type(f"compute.instances.{name}", is_system=True)) for name in names}
    assert [name for name, kind in kinds.items() if kind in (FeedKind.CHANGED, FeedKind.NOISE)] == []
