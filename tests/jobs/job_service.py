"""An office that takes jobs in, with recipes, prices and a store of checkpoints that a test can break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.jobs.cloud import CloudOfVms

from costguard.access.rules import JobRules, Rules, by_name
from costguard.db.transaction import Database
from costguard.errors import CheckpointError, CloudUnavailable, NotFound
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.submit.assess import Assessor
from costguard.jobs.submit.code import CodeArchives
from costguard.jobs.submit.submit import JobService, LaunchTargets, Overrides, Submission
from costguard.jobs.submit.where.addresses import AddressFinder
from costguard.model.data import StoredSize
from costguard.model.instance import Shape
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import Recipe, ReservedVms
from costguard.model.ports import Archives
from costguard.model.preset import Match, Preset
from costguard.schedules.submit import ScheduleService
from costguard.sweeps.quote import SweepAssessor
from costguard.sweeps.submit import SweepService
from costguard_vm.model.checkpoint import (
    Checkpoint,
    CheckpointLook,
    CheckpointState,
    Framework,
    Listing,
    LookFor,
    StoredFile,
)

T4 = Recipe(
    machine_type="n1-standard-4",
    zones=("us-central1-a", "us-central1-b"),
    image="projects/ml/global/images/family/common",
    max_run=timedelta(hours=24),
    gpu_type="nvidia-tesla-t4",
    gpu_count=1,
    attaches_gpus=True,
    disk_gib=70,
    disk_type="pd-standard",
    service_account="trainer@lab.iam.gserviceaccount.com",
)
PRESETS = (
    Preset(
        "t4",
        Match(gpu_types=frozenset({"nvidia-tesla-t4"})),
        timedelta(hours=8),
        "debugging",
        launch=T4,
        dev_image="projects/ml/global/images/family/dev",
        may_override=("zones", "buy"),
    ),
    Preset("other", Match(), None),
)
# Sold as Spot, by flex-start or by reservation, and not on demand.
B200 = replace(T4, machine_type="a4-highgpu-8g", gpu_type="nvidia-b200", gpu_count=8, attaches_gpus=False)
RULES = Rules(by_name(PRESETS), jobs=JobRules(guard_url="https://guard.example"))
SHAPES = {
    "n1-standard-4": Shape("n1-standard-4", 4, 15 * 1024),
    "n1-standard-8": Shape("n1-standard-8", 8, 30 * 1024),
}
SPEC = JobSpec(JobKind.TRAINING, "t4", "", "ada@lab.example", command=("python", "train.py"))
# A Spot VM: 4 x 0.01 + 15 x 0.001 + 0.11 for the T4, and 0.004 for the disk.
SPOT, ON_DEMAND = "0.1715", "0.539"


def asked(overrides: Overrides | None = None, **changed: Any) -> Submission:
    return Submission(replace(SPEC, **changed), overrides or Overrides())


@dataclass
class Store:
    """Checkpoints: `there` is what lies at every location, `trouble` is raised instead, `notes` come with files."""

    notes: tuple[str, ...] = ()
    there: Checkpoint | None = None
    trouble: CheckpointError | None = None
    on_look: Callable[[], object] = lambda: None
    looked_at: list[str] = field(default_factory=list)

    def listing(self, location: str) -> Listing:
        raise AssertionError("a look tells more")

    def look(
        self,
        location: str,
        look_for: LookFor,
        earlier: Listing | None = None,
        examine: int = 1,
    ) -> CheckpointLook:
        self.on_look()
        self.looked_at.append(location)
        if self.trouble is not None:
            raise self.trouble
        files = {"a.txt": StoredFile("a.txt", 1, "", NOW)} if self.notes else {}
        return CheckpointLook(location, Listing(location, files), (), self.there, self.notes)


@dataclass
class Buckets:
    """Buckets with known sizes at some addresses; any other is unknown."""

    sizes: dict[str, StoredSize | CheckpointError] = field(default_factory=dict)
    endpoints: list[str] = field(default_factory=list)

    def size(self, location: str, endpoint: str) -> StoredSize | None:
        self.endpoints.append(endpoint)
        result = self.sizes.get(location)
        if isinstance(result, CheckpointError):
            raise result
        return result


COMPLETE = Checkpoint(
    Framework.HUGGING_FACE,
    "checkpoint-500",
    "gs://lab/run/checkpoint-500",
    500,
    CheckpointState.COMPLETE,
    (),
    NOW,
    1,
    1,
)


class WatchedDatabase(Database):
    """Knows whether a transaction is open."""

    transactions = 0  # that are open

    @contextmanager
    def read(self) -> Iterator[Any]:
        with super().read() as connection, self._counted():
            yield connection

    @contextmanager
    def write(self, fence: Any = None) -> Iterator[Any]:
        with super().write(fence) as connection, self._counted():
            yield connection

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.transactions += 1
        try:
            yield
        finally:
            self.transactions -= 1


@dataclass
class JobSetup:
    """A JobService with everything that it was given."""

    database: Database
    rules: Rules = RULES
    projects: tuple[str, ...] = ("lab",)
    clock: HandClock = field(default_factory=lambda: HandClock(NOW))
    store: Store = field(default_factory=Store)
    buckets: Buckets = field(default_factory=Buckets)
    archives: Archives | None = None
    woken: int = 0
    ids: Iterator[str] = field(default_factory=lambda: (f"j{number}" for number in range(1, 1000)))
    sweep_ids: Iterator[str] = field(default_factory=lambda: (f"s{number}" for number in range(1, 1000)))
    schedule_ids: Iterator[str] = field(default_factory=lambda: (f"c{number}" for number in range(1, 1000)))
    cannot_ask: bool = False
    advice: ZoneAdvice | None = None
    capacity: RegionAdvice | None = None
    lacking: frozenset[str] = frozenset()  # zones in which Google offers no machine type that is asked for
    network: CloudOfVms | None = None  # None: nobody asks for ways out
    reserved: dict[str, ReservedVms] | None = None  # by zone; None: nobody asks for reservations
    hidden: frozenset[str] = frozenset()  # zones whose reservations may not be read

    @property
    def _launching(self) -> LaunchTargets:
        addresses = None if self.network is None else AddressFinder(self.network.way_out, self.clock)
        look = None if self.reserved is None else self._reservation
        return LaunchTargets(lambda: self.projects, self._shape, self.advice, addresses, look, self.capacity)

    @property
    def code(self) -> CodeArchives:
        return CodeArchives(self.archives, self.database, self.clock)

    @property
    def assessor(self) -> Assessor:
        launching = self._launching
        return Assessor(self.database, self.clock, self.rules, launching, self.store, self.buckets, self.code)

    @property
    def schedules(self) -> ScheduleService:
        new_id = self.schedule_ids.__next__
        return ScheduleService(self.database, self.clock, self.rules, self.assessor, self.it, new_id, self._wake)

    @property
    def sweeps(self) -> SweepService:
        of_sweeps = SweepAssessor(self.database, self.clock, self.rules, self.assessor)
        return SweepService(
            self.database, self.clock, self.rules, of_sweeps, lambda: next(self.sweep_ids), self._wake, self.code
        )

    @property
    def it(self) -> JobService:
        new_id = self.ids.__next__
        return JobService(self.database, self.clock, self.rules, self.assessor, self._launching, new_id, self._wake)

    def _shape(self, project: str, zone: str, name: str) -> Shape | None:
        assert project in self.projects
        assert zone
        if self.cannot_ask:
            raise CloudUnavailable("Google does not answer.")
        if zone in self.lacking:
            raise NotFound(f"Unknown machine type {name} in zone {zone} of project {project}.", "Choose another.")
        return SHAPES.get(name)

    def _reservation(self, project: str, zone: str, reference: str) -> ReservedVms | None:
        assert (project, reference) == ("lab", "train")
        if zone in self.hidden:
            raise CloudUnavailable("Google does not answer.")
        return (self.reserved or {}).get(zone)

    def _wake(self) -> None:
        self.woken += 1


def priced(database: Database) -> Database:
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
    return database
