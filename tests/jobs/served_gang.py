"""A gang on flex-start through Google's own client: the guard's turns over HTTP on the simulated cloud, whose VMs prove
by their identity documents which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlencode

import requests
from tests.builders import at
from tests.fakes import HandClock
from tests.gce.conftest import Waits
from tests.jobs.gang_life import GangAgents
from tests.jobs.list_prices import price_list
from tests.jobs.world import ANA, BELONGING, OWNERS, T4, Shelf

from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.identity.instances import InstanceIdentities, keys_of
from costguard.jobs.act.attempts.boot import metadata_items
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.turn import JobsTurn, TurnRules, TurnServices
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, AgentTokens, EventsAnswer
from costguard.jobs.reports.vm_claims import ClaimAnswer, VmClaim, VmClaims
from costguard.jobs.rows import attempts, job_rows
from costguard.ledger import prices
from costguard.ledger.record import record
from costguard.model.attempt import Attempt
from costguard.model.buying import bought
from costguard.model.instance import Status, audience_of
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState, SeenCheckpoint, Terms
from costguard.model.launch import Recipe
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.gce.vm import Status as CloudStatus
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT, GUARD = "demo", "https://guard.example.com"
ZONES = ("us-central1-a", "us-central1-b")
ACCOUNT = "trainer@demo.iam.gserviceaccount.com"
A100 = bought(
    Recipe(
        machine_type="a2-highgpu-1g",
        zones=ZONES,
        image="projects/deeplearning-platform-release/global/images/family/common-cu124",
        max_run=timedelta(hours=24),
        gpu_type="nvidia-tesla-a100",
        gpu_count=1,
        service_account=ACCOUNT,
    ),
    "flex",
)


@dataclass
class ServedVm:
    """A VM as `GangAgents` looks at it."""

    name: str


@dataclass
class _RunningVms:
    world: World

    def running(self) -> list[ServedVm]:
        return [ServedVm(vm.name) for vm in self.world.instances(PROJECT) if vm.status is CloudStatus.RUNNING]


@dataclass
class ServedGang:
    """The guard, the simulated cloud and the agents of job `j1`. An agent speaks once its VM's claim was answered."""

    database: Database
    clock: ManualClock
    cloud_world: World
    url: str
    compute: ComputeCloud
    tokens: AgentTokens = field(default_factory=lambda: AgentTokens(b"key"))
    given: dict[str, ClaimAnswer] = field(default_factory=dict)  # by VM
    seq: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shelf = Shelf(cast("HandClock", self.clock))
        self.hearing = AgentEvents(self.database, self.clock, self.tokens, lambda: None)
        self.identities = InstanceIdentities(self.clock, keys_of(self.url))
        self.claims = VmClaims(self.database, self.identities.vm, self.tokens.of, GUARD)
        self.cloud = _RunningVms(self.cloud_world)
        self.guard()

    def guard(self) -> None:
        """Begins a new process of the guard on what is stored."""
        maker = VmMaker("g1", GUARD, "", self.tokens.of, _metadata, OWNERS)
        self.turn = JobsTurn(
            self.database,
            self.clock,
            TurnServices(
                self.compute.launcher,
                maker,
                self.shelf,
                lambda *_: replace(T4, machine_type="a2-highgpu-1g", vcpus=12, memory_mib=87040),
                restoring.begin,
            ),
            TurnRules(Terms(), lambda *_: {}),
        )

    # As `World` of the tests is asked by `GangAgents`.

    def step(self, seconds: float = 10, passing: bool = True) -> None:
        self.cloud_world.advance(timedelta(seconds=seconds))
        if passing:
            record(self.database, self.compute, self.compute.observe(PROJECT, None), BELONGING, None)
        self.turn.run()

    def answer(self, name: str, *events: tuple[str, Any]) -> EventsAnswer:
        """Reports events with the token that the VM's claim was answered with."""
        vm = self.vm(name)
        if name not in self.given:
            self.given[name] = self.claim(vm)
            assert self.given[name].attempt == name
        begin = self.seq.get(name, 0) + 1
        reported = [
            AgentEvent(seq, kind, self.clock.now(), {"run": 1, **fields})
            for seq, (kind, fields) in enumerate(events, begin)
        ]
        answer = self.hearing.hear(name, self.given[name].token, reported)
        self.seq[name] = answer.accepted_through
        return answer

    def job(self, job_id: str = "j1") -> Job:
        with self.database.read() as connection:
            job = job_rows.read(connection, job_id)
        assert job is not None
        return job

    # What a VM does.

    def vm(self, name: str) -> VM:
        return self.cloud_world.instance(PROJECT, name)

    def document(self, vm: VM, audience: str = "", **more: str) -> str:
        """Returns the VM's identity document, from its metadata server."""
        query = {"audience": audience or audience_of(GUARD, "j1"), "format": "full", **more}
        path = f"/metadata/{vm.id}/computeMetadata/v1/instance/service-accounts/default/identity?{urlencode(query)}"
        answer = requests.get(f"{self.url}{path}", headers={"Metadata-Flavor": "Google"}, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.text

    def claim(self, vm: VM, secret: str = "") -> ClaimAnswer:
        return self.claims.answer(VmClaim("j1", self.document(vm), secret or f"secret of {vm.id}".ljust(32, ".")))

    # What came of it.

    def attempts(self) -> list[Attempt]:
        with self.database.read() as connection:
            return attempts.of_jobs(connection, ["j1"]).get("j1", [])

    def submit(self, recipe: Recipe = A100, nodes: int = 4) -> GangAgents:
        plan = CheckpointPlan("gs://runs/train", "--from_checkpoint {checkpoint}")
        command = ("torchrun", "train.py")
        spec = JobSpec(JobKind.TRAINING, "a100", PROJECT, ANA, command=command, checkpoint=plan, nodes=nodes)
        job = Job("j1", spec, recipe, JobState.QUEUED, "", self.clock.now(), "api")
        with self.database.write() as connection:
            prices.add(connection, list(price_list()), self.clock.now())
            job_rows.add(connection, job, None, "")
        return GangAgents(self)  # type: ignore[arg-type]  # what it asks of a world is here

    def save(self, step: int) -> None:
        """Writes a checkpoint, which the guard sees."""
        self.shelf.save(step)
        now = self.clock.now()
        with self.database.write() as connection:
            job_rows.save_look(connection, "j1", SeenCheckpoint(now, "x", step=step, written_at=now, advanced_at=now))

    def cancel(self) -> None:
        with self.database.write() as connection:
            job_rows.ask_cancel(connection, "j1", ANA, "Ana asked to cancel it", self.clock.now())

    def until(self, is_so: Callable[[], bool], turns: int = 60) -> None:
        for _ in range(turns):
            if is_so():
                return
            self.step()
        raise AssertionError(f"{self.job().reason}; {[(one.name, one.state, one.error) for one in self.attempts()]}")

    def groups(self) -> list[str]:
        """Returns the zones of the groups that are there."""
        return sorted(group.zone for group in self.cloud_world.groups.of(PROJECT))

    def is_clean(self) -> bool:
        """Says whether no VM, disk, group or template is left."""
        world = self.cloud_world
        left = (world.instances(PROJECT), world.disks(PROJECT), self.groups(), world.managed_groups.templates)
        return not any(left)

    def seen_statuses(self) -> set[Status]:
        """Returns the statuses of the VMs as the guard's listing has them."""
        return {one.status for one in self.compute.observe(PROJECT, None).instances}


def _metadata(settings: Any, token: str, with_drivers: bool) -> dict[str, str]:
    return metadata_items(settings, token, with_drivers, b"no agent")


@contextmanager
def served_gang(database: Database) -> Iterator[ServedGang]:
    clock = ManualClock(at("08:00"))
    world = World(clock)
    with running(world) as url, closing(ComputeCloud(url, clock, wait=Waits())) as cloud:
        yield ServedGang(database, clock, world, url, cloud)
