"""The state machine of a VM: which states each request and system event leads through, and when.

Billing depends on these moments: a run begins at the end of an insert, start or resume, and ends at the start of a
stop, suspend or delete, or with a system event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard_sandbox.clock import to_ms
from costguard_sandbox.gce.checks import suspend_failure
from costguard_sandbox.gce.guests import Ending, Guests
from costguard_sandbox.gce.operations import Failure, Operation
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

Capacity = Callable[[VM], Failure | None]

_UP = frozenset({Status.RUNNING, Status.PENDING_STOP})
_COMING_UP = frozenset({Status.PROVISIONING, Status.STAGING, Status.REPAIRING})
# Requests that wait for the transition under way; the others are refused during one.
_WAITS = frozenset({"stop", "delete"})


@dataclass(eq=False)
class Lifecycle:
    _timeline: Timeline
    _seed: int
    _capacity: Capacity
    _remove: Callable[[VM], None]
    _on_run_limit: Callable[[VM, bool], None]
    _on_change: Callable[[VM], None]
    _on_start: Callable[[VM, datetime], None]
    _guests: Guests
    _wait: Callable[[Operation, VM], None]
    _withdraw: Callable[[VM], None]
    _stamps_apart: bool = False  # whether the stamp of a start is written a moment after its operation ended

    @property
    def _now(self) -> datetime:
        return self._timeline.now

    def accept(self, operation: Operation, vm: VM) -> None:
        """Plan the operation's start, after those accepted earlier; its effect depends on the VM's state then."""
        begins = self._now + self._draw("begin", operation)
        if vm.accepted_until is not None and vm.accepted_until >= begins:
            begins = vm.accepted_until + timedelta(milliseconds=1)
        vm.accepted_until = begins
        self._until(operation, begins, lambda: self._start_or_wait(operation, vm))

    def _start_or_wait(self, operation: Operation, vm: VM) -> None:
        if operation.kind in _WAITS and vm.busy_until is not None and vm.busy_until > self._now:
            begins = vm.busy_until + self._draw("begin", operation)
            self._until(operation, begins, lambda: self._start_or_wait(operation, vm))
            return
        operation.begin(self._now)
        if vm.status is Status.DELETED:
            text = f"The resource 'projects/{vm.project}/zones/{vm.zone}/instances/{vm.name}' was not found"
            operation.finish(self._now, Failure("RESOURCE_NOT_FOUND", text, 404))
        else:
            act: Callable[[Operation, VM], None] = getattr(self, f"_{operation.kind}")
            act(operation, vm)

    def fail(self, operation: Operation, failure: Failure) -> None:
        """An insert that fails: its VM is never visible."""
        begins = self._now + self._draw("begin", operation)
        ends = begins + self._draw("failed insert", operation)
        operation.ends_at = ends
        self._timeline.at(begins, lambda: operation.begin(self._now))
        self._timeline.at(ends, lambda: operation.finish(self._now, failure))

    def carry_out(self, operation: Operation, what: str, act: Callable[[], Failure | None]) -> None:
        """An operation that takes effect, or fails, at its end."""
        begins = self._now + self._draw("begin", operation)
        operation.ends_at = begins + self._draw(what, operation)
        self._timeline.at(begins, lambda: operation.begin(self._now))
        self._timeline.at(operation.ends_at, lambda: operation.finish(self._now, act()))

    def follow(self, operation: Operation, is_over: Callable[[], bool], failure: Failure | None) -> None:
        """An operation that is done when others are, checked every second."""

        def look() -> None:
            if operation.start_time is None:
                operation.begin(self._now)
            if is_over():
                operation.finish(self._now, failure)
            else:
                self._until(operation, self._now + timedelta(seconds=1), look)

        self._until(operation, self._now + self._draw("begin", operation), look)

    # Requests of users; each runs at the operation's startTime.

    def _insert(self, operation: Operation, vm: VM) -> None:
        if vm.status is Status.PENDING:
            self._wait(operation, vm)
        else:
            self._come_up(operation, vm, "insert")

    def grant(self, operation: Operation | None, vm: VM) -> None:
        """A flex-start request gets its capacity. None: its operation is done already."""
        self._show(vm, Status.PROVISIONING)
        self._come_up(operation, vm, "insert")

    def _start(self, operation: Operation, vm: VM) -> None:
        if vm.status is Status.RUNNING:
            self._nothing_to_do(operation)
        elif vm.status is Status.SUSPENDED:
            self._refuse(operation, "INVALID_USAGE", f"Instance '{vm.name}' is suspended and must be resumed.")
        elif vm.status is not Status.TERMINATED:
            self._not_ready(operation, vm)
        elif vm.boot_disk is None:
            self._refuse(operation, "INVALID_USAGE", f"Instance '{vm.name}' has no boot disk; attach one to start it.")
        elif failure := self._capacity(vm):
            self._later(operation, "failed insert", lambda: operation.finish(self._now, failure))
        else:
            self._show(vm, Status.PROVISIONING)
            self._come_up(operation, vm, "start")

    def _resume(self, operation: Operation, vm: VM) -> None:
        if vm.status is not Status.SUSPENDED:
            self._refuse(operation, "INVALID_USAGE", f"Instance '{vm.name}' is not in state SUSPENDED.")
        elif failure := self._capacity(vm):
            self._later(operation, "failed insert", lambda: operation.finish(self._now, failure))
        else:
            self._show(vm, Status.PROVISIONING)
            self._come_up(operation, vm, "resume")

    def _stop(self, operation: Operation, vm: VM) -> None:
        graceful = vm.scheduling.get("gracefulShutdown") or {}
        if vm.status is Status.TERMINATED:
            self._nothing_to_do(operation)
        elif vm.status is Status.PENDING:
            self._not_ready(operation, vm)
        elif vm.status is Status.RUNNING and graceful.get("enabled"):
            longest = timedelta(seconds=int((graceful.get("maxDuration") or {}).get("seconds", 600)))
            grace = min(longest, self._draw("guest shutdown", operation))
            number = self._begin(vm, grace)
            self._show(vm, Status.PENDING_STOP)
            self._guests.down(vm, Ending.SHUTDOWN)
            operation.ends_at = self._now + grace
            self._timeline.at(operation.ends_at, lambda: self._power_off(operation, vm, number))
        else:
            self._power_off(operation, vm, vm.transition)

    def _suspend(self, operation: Operation, vm: VM) -> None:
        if failure := suspend_failure(vm):
            self._refuse(operation, failure.code, failure.message)
            return
        length = self._draw("suspend", operation)
        number = self._begin(vm, length)
        self._end_run(vm, Status.SUSPENDING)
        self._guests.suspend(vm)
        vm.save_memory(self._now)

        def suspended() -> None:
            if vm.transition == number:
                vm.last_suspend = self._now
                vm.termination_at = None
                self._show(vm, Status.SUSPENDED)
            operation.finish(self._now)

        self._until(operation, self._now + length, suspended)

    def _delete(self, operation: Operation, vm: VM) -> None:
        if vm.status is Status.PENDING:
            self._withdraw(vm)
        length = self._draw("delete running" if vm.status in _UP else "delete stopped", operation)
        number = self._begin(vm, length)
        self._end_run(vm, Status.STOPPING)
        self._guests.down(vm, Ending.SHUTDOWN)

        def gone() -> None:
            if vm.transition == number:
                self._remove(vm)
            operation.finish(self._now)

        self._until(operation, self._now + length, lambda: self._guests.when_gone(vm, gone))

    def _reset(self, operation: Operation, vm: VM) -> None:
        if vm.status is not Status.RUNNING:
            self._not_ready(operation, vm)
        else:
            self._guests.down(vm, Ending.POWER_CUT)
            self._guests.up(vm)
            self._later(operation, "reset", lambda: operation.finish(self._now))

    # System events.

    def is_up(self, vm: VM) -> bool:
        return vm.status in _UP or vm.status in _COMING_UP

    def end_as_asked(self, vm: VM) -> None:
        """Stops or deletes the VM, as its insert said: its time or its reservation is over."""
        delete = vm.scheduling.get("instanceTerminationAction") == "DELETE"
        self._on_run_limit(vm, delete)
        self._interrupt(vm, Ending.SHUTDOWN, delete=delete)

    def preempt(self, vm: VM) -> None:
        deletes = vm.scheduling.get("instanceTerminationAction") == "DELETE"
        self._interrupt(vm, Ending.PREEMPTION, delete=deletes, preempted=True)

    def shut_down(self, vm: VM, ending: Ending) -> None:
        """The guest turned the VM off, or Google did without a restart."""
        self._interrupt(vm, ending, delete=False)

    def repair(self, vm: VM, ending: Ending, restarted: Callable[[], None]) -> None:
        """The host failed or went into maintenance, and Google restarts the VM."""
        length = self._draw("repair", (vm.id, vm.transition))
        number = self._begin(vm, length)
        self._end_run(vm, Status.REPAIRING)
        self._guests.down(vm, ending)

        def up() -> None:
            if vm.transition == number:
                restarted()
                self._run(vm)

        self._timeline.at(self._now + length, up)

    def recreate(self, vm: VM, insert: Callable[[], Operation]) -> None:
        """A managed group stops the VM and inserts it again, under the same id. `insert` is called when it is down.

        Recorded: the stop stamp follows the group's operation by 54 s. Until then the VM counts as running.
        """
        down = self._draw("recreate down", (vm.id, vm.transition))
        length = down + self._draw("recreate up", (vm.id, vm.transition))
        ends = self._now + length
        number = self._begin(vm, length)
        made: list[Operation] = []
        self._guests.down(vm, Ending.SHUTDOWN)

        def stopped() -> None:
            if vm.transition == number:
                if vm.runs and vm.runs[-1].ended is None:  # a VM that others stopped has its stamp of that
                    vm.last_stop = self._now
                self._end_run(vm, Status.STOPPING)
                self._show(vm, Status.PROVISIONING)
                made.append(insert())
                made[0].begin(self._now)
                made[0].ends_at = ends

        def up() -> None:
            if vm.transition == number:
                made[0].finish(self._now)
                self._run(vm)
            elif made:
                made[0].finish(self._now, self._superseded(vm))

        self._timeline.at(self._now + down, stopped)
        self._timeline.at(ends, up)

    def _superseded(self, vm: VM) -> Failure:
        text = f"Instance '{vm.name}' was stopped before the operation was complete."
        return Failure("UNSUPPORTED_OPERATION", text, 400)

    def _interrupt(self, vm: VM, ending: Ending, *, delete: bool, preempted: bool = False) -> None:
        length = self._draw("power off", (vm.id, vm.transition))
        number = self._begin(vm, length)
        self._end_run(vm, Status.STOPPING, preempted=preempted)
        self._guests.down(vm, ending)
        self._wind_down(vm, number, self._now + length, delete=delete, done=None)

    # Steps.

    def _come_up(self, operation: Operation | None, vm: VM, what: str) -> None:
        length = self._draw(what, operation or (vm.id, vm.transition))
        number = self._begin(vm, length)
        vm.is_preempted = False  # what ends this start now is no preemption of an earlier one
        self._arm_run_limit(vm)

        def staging() -> None:
            if vm.transition == number:
                self._show(vm, Status.STAGING)

        def up() -> None:
            if vm.transition == number:
                self._finish(operation)
                self._run(vm)
            elif operation is None:
                return
            elif what == "start" and vm.is_preempted and vm.status is not Status.DELETED:
                # Recorded twice: the start ends without an error although a preemption came before its end.
                operation.finish(self._now)
                vm.last_start = self._now
                self._show(vm, vm.status)
            else:
                operation.finish(self._now, self._superseded(vm))

        self._timeline.at(to_ms(self._now + length * 0.4), staging)
        if operation is not None:
            operation.ends_at = self._now + length
        self._timeline.at(self._now + length, up)
        if operation is not None and what == "start":
            self._on_start(vm, to_ms(self._now + max(length * 0.1, length - self._draw("lost start", operation))))

    def _finish(self, operation: Operation | None) -> None:
        if operation is not None:
            operation.finish(self._now)

    def _run(self, vm: VM) -> None:
        vm.begin_run(self._now)
        if self._stamps_apart:
            vm.last_start = to_ms(self._now + self._draw("before the end", (vm.id, len(vm.runs))))
        self._on_change(vm)
        self._guests.up(vm)

    def _end_run(self, vm: VM, status: Status, *, preempted: bool = False) -> None:
        # A VM that is interrupted while it resumes loses its saved memory, too.
        vm.release_memory(self._now)
        vm.end_run(self._now, status, preempted=preempted)
        self._on_change(vm)

    def _show(self, vm: VM, status: Status) -> None:
        vm.set_status(status)
        self._on_change(vm)

    def _power_off(self, operation: Operation, vm: VM, number: int) -> None:
        if vm.transition != number:
            operation.finish(self._now)
            return
        length = self._draw("stop", operation)
        mine = self._begin(vm, length)
        self._end_run(vm, Status.STOPPING)
        self._guests.down(vm, Ending.SHUTDOWN)
        operation.ends_at = self._now + length
        self._wind_down(vm, mine, operation.ends_at, delete=False, done=lambda: operation.finish(self._now))

    def _wind_down(self, vm: VM, number: int, ends: datetime, *, delete: bool, done: Callable[[], None] | None) -> None:
        def nearly() -> None:
            if vm.transition == number:
                # Set just before the operation ends: the whole shutdown later than the end of billing.
                vm.last_stop = self._now
                self._show(vm, Status.STOPPING)

        def off() -> None:
            if vm.transition == number:
                if self._now > ends:  # its processes used their grace period
                    vm.last_stop = self._now
                vm.termination_at = None
                if delete:
                    self._remove(vm)
                else:
                    self._show(vm, Status.TERMINATED)
            if done is not None:
                done()

        self._timeline.at(ends - self._draw("before the end", (vm.id, number)), nearly)
        self._timeline.at(ends, lambda: self._guests.when_gone(vm, off))

    def _arm_run_limit(self, vm: VM) -> None:
        """Google counts the limit from the start of the request, some seconds before the VM runs."""
        vm.run_limit += 1
        armed = vm.run_limit
        until = vm.scheduling.get("terminationTime")
        if until:
            vm.termination_at = datetime.fromisoformat(until)
        elif vm.max_run_duration:
            vm.termination_at = self._now + vm.max_run_duration
        else:
            return
        late = self._draw("late", (vm.id, armed))
        self._timeline.at(to_ms(vm.termination_at + late), lambda: self._run_limit_reached(vm, armed))

    def _run_limit_reached(self, vm: VM, armed: int) -> None:
        if vm.run_limit != armed:
            return
        if vm.status in _COMING_UP and vm.busy_until is not None:
            self._timeline.at(vm.busy_until + timedelta(seconds=1), lambda: self._run_limit_reached(vm, armed))
        elif vm.status in _UP:
            self.end_as_asked(vm)

    def _begin(self, vm: VM, length: timedelta) -> int:
        vm.transition += 1
        vm.busy_until = self._now + length
        return vm.transition

    def _nothing_to_do(self, operation: Operation) -> None:
        self._later(operation, "nothing to do", lambda: operation.finish(self._now))

    def _not_ready(self, operation: Operation, vm: VM) -> None:
        resource = f"projects/{vm.project}/zones/{vm.zone}/instances/{vm.name}"
        self._refuse(operation, "RESOURCE_NOT_READY", f"The resource '{resource}' is not ready")

    def _refuse(self, operation: Operation, code: str, message: str) -> None:
        self._later(operation, "nothing to do", lambda: operation.finish(self._now, Failure(code, message, 400)))

    def _later(self, operation: Operation, what: str, act: Callable[[], None]) -> None:
        self._until(operation, self._now + self._draw(what, operation), act)

    def _until(self, operation: Operation, moment: datetime, act: Callable[[], None]) -> None:
        operation.ends_at = max(moment, self._now)
        self._timeline.at(moment, act)

    def _draw(self, what: str, subject: Operation | tuple[int, int]) -> timedelta:
        return draw_duration(self._seed, what, subject.id if isinstance(subject, Operation) else subject)
