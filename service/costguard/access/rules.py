"""The settings that decisions depend on, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from costguard.model.budget import Budget, FleetLimit
from costguard.model.data import StageRules
from costguard.model.delivery.tracker import Tracker
from costguard.model.job import Terms
from costguard.model.keeper import KeeperKind
from costguard.model.money import Money
from costguard.model.preset import Preset
from costguard.model.reminder import QuietRule, StorageRule, Team

# The labels whose value names one execution of a workflow. The last is Vertex AI Pipelines' own, which it attaches to a
# run and to what that makes (docs.cloud.google.com, "Understand pipeline run costs"); the others are Costguard's names,
# since those of Flyte's, Argo's, Kubeflow's and Airflow's own labels of pods have characters that no label of a VM has.
WORKFLOW_LABELS = (
    "flyte-execution",
    "argo-workflow",
    "kubeflow-run",
    "airflow-run",
    "vertex-ai-pipelines-run-billing-id",
)


@dataclass(frozen=True, slots=True)
class Protection:
    """VMs that are never stopped by a rule. A person may still stop them. Names are shell patterns such as `*-prod`.

    A VM whose `label` says anything but `false` is protected, and the label's value is the reason.
    """

    label: str = "costguard-protect"
    projects: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The lists of people by role. Entries are addresses, or `@domain` for all of a domain, in lower case."""

    viewers: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    team_operators: frozenset[str] = frozenset()  # of any team, whatever they are elsewhere


_CONFIRMED = Money.of(100)


@dataclass(frozen=True, slots=True)
class JobRules:
    """`guard_url` is where VMs reach this guard; "" where they cannot, and no command can be run on them."""

    guard_url: str = ""
    guard_ca: str = ""  # PEM text of the authority behind its certificate; "" is the system's
    heartbeat: timedelta = timedelta(seconds=15)  # how often a VM tells how far its command has come
    terms: Terms = field(default_factory=Terms)
    logs: str = ""  # where the output is stored of jobs whose checkpoints are in no bucket; "" nowhere
    profiles: bool = False  # whether profiles are taken of jobs that do not say
    trackers: frozenset[Tracker] = frozenset()  # experiment trackers that this guard can log to
    stage: StageRules = field(default_factory=StageRules)
    confirm_above: Money | None = _CONFIRMED  # a launch that may cost more is confirmed at a terminal; None: never


@dataclass(frozen=True, slots=True)
class Rules:
    """`channel` is where reminders go that no team's channel takes; "" where nobody can be reminded at all."""

    presets: Mapping[str, Preset]
    quiet: QuietRule = field(default_factory=QuietRule)
    rest: StorageRule = field(default_factory=StorageRule)
    time_zone: str = "UTC"  # of channels, and of people of whom Slack tells none
    channel: str = ""
    owner_label: str = "owner"  # which names the owner
    contact: str = ""  # who is asked last where no budget names anybody
    teams: tuple[Team, ...] = ()
    budgets: tuple[Budget, ...] = ()
    fleet_limits: tuple[FleetLimit, ...] = ()
    spend_labels: tuple[str, ...] = ()  # VM labels that spend is added up by, day by day
    workflow_labels: tuple[str, ...] = WORKFLOW_LABELS  # those whose value names one execution of a workflow
    access: Access = field(default_factory=Access)
    protection: Protection = field(default_factory=Protection)
    stop_through: frozenset[KeeperKind] = frozenset()  # keepers whose VMs are stopped by the keeper's own stop
    is_shadow: bool = True  # rules stop nothing: it is recorded what they would have stopped
    jobs: JobRules = field(default_factory=JobRules)


def by_name(presets: Iterable[Preset]) -> Mapping[str, Preset]:
    """Returns presets by name, in the order in which they are tried."""
    return {preset.name: preset for preset in presets}
