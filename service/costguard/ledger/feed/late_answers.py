"""Answers later what VMs are of which nothing said it when they were heard of.

The entry of their bulk insert came last; or the first entry was lost, and Google's history of assets has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CloudError, PermissionDenied
from costguard.ledger import operations
from costguard.ledger.feed import kept_requests
from costguard.ledger.feed.asset_request import PastVm, name_of, past_vms, request_of_asset
from costguard.ledger.feed.kept_requests import KeptRequest, Untold
from costguard.ledger.feed.record import record_requests
from costguard.ledger.observe import Belonging
from costguard.model.instance import InstanceKey
from costguard.model.observation import AssetState, SeenOperation
from costguard.model.ports import AssetHistories, Clock, Cloud

LOOKED_BACK = timedelta(days=1)  # for VMs of which nothing tells what they are
ASKED_AFTER = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
"""Assets appear minutes late, and now and then later. These are the ages at which the history of a VM is asked for."""
CALLS = 20
"""The most calls of the history in one turn, a minute. Google allows 100 a minute for each project that calls."""
_AT_ONCE = 1000  # VMs
_AGAIN_AFTER = timedelta(minutes=10)  # a refusal

log = structlog.get_logger(__name__)

Ops = Mapping[InstanceKey, Sequence[SeenOperation]]


@dataclass(slots=True)
class _Calls:
    left: int


class LateAnswers:
    """A task that runs next to the passes. `histories` is None where nobody may be asked: only bulk inserts tell then.

    `parent_of` says of which organisation or project the assets of a project are asked for.
    """

    def __init__(
        self,
        database: Database,
        cloud: Cloud,
        clock: Clock,
        belonging: Belonging,
        histories: AssetHistories | None = None,
        parent_of: Callable[[str], str] = "projects/{}".format,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._clock = clock
        self._belonging = belonging
        self._histories = histories
        self._parent_of = parent_of
        self._not_before: datetime | None = None

    def run(self, lease: Lease | None, stop: threading.Event | None = None) -> int:
        """Takes one turn; returns how many VMs are known by it. Raises LeaseLost and StoreError."""
        now = self._clock.now()
        with self._database.read() as connection:
            untold = kept_requests.untold(connection, now - LOOKED_BACK)
            some = untold[:_AT_ONCE] + [one for one in untold[_AT_ONCE:] if _is_due(one, now)][:_AT_ONCE]
            by_vm = operations.of_vms(connection, ((one.key.project, one.key.gce_id) for one in some))
            ops = {InstanceKey(*vm): of_vm for vm, of_vm in by_vm.items()}
            inserts = {
                key: op for key, of_vm in ops.items() for op in of_vm if op.kind == "insert" and op.error_code is None
            }
            requests = kept_requests.of_bulks(connection, inserts)
        requests = {key: one for key, one in requests.items() if one.says_all}
        self._record(requests, lease, now)
        due = [one for one in some if one.key not in requests and _is_due(one, now)]
        is_stopped = stop is not None and stop.is_set()
        if (
            self._histories is None
            or not due
            or is_stopped
            or (self._not_before is not None and now < self._not_before)
        ):
            return len(requests)
        return len(requests) + self._ask(self._histories, due, ops, lease, now)

    def _ask(
        self, histories: AssetHistories, due: Sequence[Untold], ops: Ops, lease: Lease | None, now: datetime
    ) -> int:
        by_parent: dict[str, list[Untold]] = {}
        for one in due:
            by_parent.setdefault(self._parent_of(one.key.project), []).append(one)
        calls, number = _Calls(CALLS), 0
        try:
            for parent, some in by_parent.items():
                number += self._ask_one(histories, parent, some, ops, lease, now, calls)
                if calls.left <= 0:
                    break
        except CloudError as error:
            pause = _AGAIN_AFTER if isinstance(error, PermissionDenied) else timedelta(seconds=error.retry_after)
            self._not_before = now + pause
            log.warning("asset_history_not_read", error=str(error))
        return number

    def _ask_one(
        self,
        histories: AssetHistories,
        parent: str,
        some: Sequence[Untold],
        ops: Ops,
        lease: Lease | None,
        now: datetime,
        calls: _Calls,
    ) -> int:
        names = {one.key: name for one in some if (name := _name(one.key, ops.get(one.key, ()))) is not None}
        states, answered = self._read(histories, parent, sorted(set(names.values())), calls)
        vms = past_vms({key: name for key, name in names.items() if name in answered}, states)
        requests = self._requests(histories, parent, vms, calls)
        self._record(requests, lease, now)
        untold = [one for one in some if one.key not in vms and names.get(one.key) in {None, *answered}]
        if untold:
            with self._database.write(lease) as connection:
                kept_requests.note_asked(connection, untold)
        return len(requests)

    def _requests(
        self, histories: AssetHistories, parent: str, vms: Mapping[InstanceKey, PastVm], calls: _Calls
    ) -> dict[InstanceKey, KeptRequest]:
        """A VM whose disks could not be read yet is asked about again, as a whole."""
        disks = sorted({name for vm in vms.values() for name in vm.disks})
        states, answered = self._read(histories, parent, disks, calls) if disks else ((), frozenset())
        requests = {key: request_of_asset(vm, states) for key, vm in vms.items() if answered.issuperset(vm.disks)}
        return {key: one for key, one in requests.items() if one is not None and one.says_all}

    @staticmethod
    def _read(
        histories: AssetHistories, parent: str, names: Sequence[str], calls: _Calls
    ) -> tuple[Sequence[AssetState], frozenset[str]]:
        if calls.left <= 0:
            return (), frozenset()
        answer = histories.history(parent, names, calls.left)
        calls.left = answer.calls_left
        return answer.states, answer.answered

    def _record(self, requests: Mapping[InstanceKey, KeptRequest], lease: Lease | None, now: datetime) -> None:
        if requests:
            record_requests(self._database, self._cloud, requests, self._belonging, lease, now)
            log.info("vms_known_later", vms=len(requests))


def _is_due(one: Untold, now: datetime) -> bool:
    return one.request.asked < len(ASKED_AFTER) and now - one.heard_at >= ASKED_AFTER[one.request.asked]


def _name(key: InstanceKey, ops: Sequence[SeenOperation]) -> str | None:
    """The name of its asset, by its operations; None where these do not name the VM or its zone."""
    named = next((op for op in ops if op.target_name and op.zone), None)
    return None if named is None else name_of(key.project, named.zone, named.target_name)
