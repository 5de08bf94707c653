"""A set-up on the simulated cloud that uses every feature, and what the doctor finds in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costguard.clock import SystemClock
from costguard.db.migrate import upgrade
from costguard.doctor.finding import CheckState, Finding
from costguard.main.doctor import examined
from costguard.settings import load
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.world import World

PROJECTS = ("acme-research", "acme-vision")
ACCOUNT = "costguard@acme-operations.iam.gserviceaccount.com"
TRAINER = "trainer@acme-research.iam.gserviceaccount.com"
TABLE = "acme-vision.billing.export"
SUBSCRIPTION = "projects/acme-vision/subscriptions/costguard-events"
SECRETS = {"COSTGUARD_SLACK_TOKEN": BOT_TOKEN, "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET}
GOOGLE = """
[watch]
projects = ["acme-research", "acme-vision"]
[database]
url = "sqlite:///{folder}/costguard.db"
[compute]
endpoint = "{url}"
[checkpoints]
gcs_endpoint = "{url}"
[bill]
table = "acme-vision.billing.export"
endpoint = "{url}"
[feed]
subscription = "projects/acme-vision/subscriptions/costguard-events"
endpoint = "{url}"
[jobs]
guard_url = "http://127.0.0.1:8765"
code = "gs://acme-code/code"
logs = "gs://acme-logs"
[enforcement]
shadow = false
stop_through = ["group", "workbench", "workstation", "vertex"]
[access]
viewers = ["@example.com"]
[presets.t4]
launch.zones = ["us-central1-a"]
launch.service_account = "trainer@acme-research.iam.gserviceaccount.com"
[presets.a100]
launch.zones = ["us-central1-a"]
launch.on_demand_fallback = true
[presets.multi-gpu]
launch.zones = ["us-central1-a"]
launch.buy = "flex"
launch.service_account = "trainer@acme-research.iam.gserviceaccount.com"
"""
SLACK = """
[slack]
channel = "#gpu-costs"
endpoint = "{url}/slack/api/"
[reminders]
contact = "ana@example.com"
"""


@dataclass
class DoctorSetup:
    world: World
    settings_text: str
    folder: Path

    def findings(self, **options: Any) -> Sequence[Finding]:
        path = self.folder / "costguard.toml"
        path.write_text(self.settings_text)
        return examined(load(path, SECRETS), SystemClock().now, **options)

    def troubles(self, **options: Any) -> list[Finding]:
        return troubles_of(self.findings(**options))

    def needs(self, **options: Any) -> Finding:
        """The one thing that is needed; nothing else may be said, least of all that something is not known."""
        (only,) = self.troubles(**options)
        assert only.state is CheckState.NEEDS
        return only


def troubles_of(findings: Sequence[Finding]) -> list[Finding]:
    """Picks what is not `ok`, without what no simulated cloud can prove."""
    unproven = {"backups", "prices", "address for VMs"}
    return [one for one in findings if not one.is_ok and one.name not in unproven]


@contextmanager
def set_up(folder: Path, text: str = GOOGLE, projects: Sequence[str] = PROJECTS) -> Iterator[DoctorSetup]:
    world = World(ScaledClock(), projects=projects)
    topic = SUBSCRIPTION.replace("/subscriptions/", "/topics/")
    world.pubsub.add_topic(topic)
    world.pubsub.add_subscription(SUBSCRIPTION, topic)
    with running(world) as url:
        upgrade(f"sqlite:///{folder}/costguard.db")
        yield DoctorSetup(world, text.format(url=url, folder=folder), folder)
