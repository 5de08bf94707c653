"""The settings of an attempt, from the VM's metadata."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from costguard_vm.model.log_pattern import LogPattern

LOOKS_IN_A_MINUTE = 10  # at least
FLAT = "flat"  # why a command is ended: its metric stands still, and what it saved is its result
HANG_LOOKS = 4  # heartbeats without a step, at least, before a command counts as hung


class NotStarted(Exception):
    """The command cannot be started, and waiting does not help. `repeats`: nor would another VM."""

    def __init__(self, message: str, repeats: bool = False) -> None:
        super().__init__(message)
        self.repeats = repeats


class Unwanted(Exception):
    """The present work is to end: the job was cancelled, the VM ends, or another step before the command failed."""


class AgentPaths(NamedTuple):
    """The metadata server's URL, and the folders of the agent's files, of the command's output, and of mounts."""

    metadata: str = "http://metadata.google.internal/computeMetadata/v1"
    home: str = "/var/lib/costguard"
    logs: str = "/var/log/costguard"
    volumes: str = ""  # below which the sources of mounts lie; a VM's own folder in the simulated cloud


class AttemptSettings(NamedTuple):
    """The attribute `costguard-attempt`. Unknown keys are ignored, so that a newer server may add some."""

    attempt: str = ""
    guard: str = ""
    guard_ca: str = ""
    command: list[str] = []
    checkpoint: dict[str, str] = {}
    resume_arguments: list[str] = []
    stored_checkpoint: dict[str, str] = {}
    plain_command: list[str] = []
    image: str = ""
    pull: bool = False
    gpus: int = 0
    aws_role: str = ""
    bandwidth_mib_s: int = 0
    rclone_sha256: str = ""
    rclone_machine: str = ""
    stacks: bool = False
    profile: bool = False
    py_spy_sha256: str = ""
    py_spy_machine: str = ""
    job: str = ""
    inputs: dict[str, str] = {}
    stages: dict[str, str] = {}
    stage_poll_s: float = 5.0
    stage_wait_s: float = 600.0
    stage_batch_bytes: int = 256 << 20
    outputs: dict[str, str] = {}
    publish: dict[str, str] = {}
    publish_wait_s: float = 3600.0
    environment: dict[str, str] = {}
    secrets: dict[str, str] = {}
    secret_manager: str = "https://secretmanager.googleapis.com"  # noqa: S105  an address
    workdir: str = ""
    code: dict[str, str] = {}
    setup: str = ""
    mounts: list[str] = []
    docker_args: list[str] = []
    save_on: str = ""
    save_every_s: float = 0.0
    resume: bool = False
    stands_by: bool = False
    stand_by_s: float = 3.0
    gang: dict[str, str] = {}
    peers_s: float = 120.0
    parts_s: float = 60.0
    maintenance: str = "stop"
    step_file: str = ""
    step_pattern: str = ""
    metric_pattern: str = ""
    metric_better: str = "lower"
    notice_s: float = 0.0
    notice_grace_s: float = 22.0  # Google cuts the power 30 s after its notice, which arrives with some delay
    cancel_grace_s: float = 60.0
    drill_settle_s: float = 60.0
    drill_stake_s: float = 300.0
    drill_patience_s: float = 120.0
    gpu_wait_s: float = 900.0
    heartbeat_s: float = 15.0
    look_s: float = 60.0
    activity_s: float = 60.0
    activity_look_s: float = 1.0
    quick_crash_s: float = 600.0
    poll_s: float = 0.5
    hang_least_s: float = 300.0
    retry_s: float = 1.0
    retry_most_s: float = 60.0
    output_lines: int = 20
    output_bytes: int = 4096
    exit_output_bytes: int = 32768
    log_bytes: int = 50 << 20
    log_files: int = 3
    logs: str = ""
    log_s: float = 30.0
    spool_most: int = 5000


class GangPlace(NamedTuple):
    """A VM's place among those that run one job: its number from 0, how many they are, and the rendezvous port.

    `least`: a round may have no more VMs than this; with fewer than `nodes`, the word to begin says the VM's place.
    """

    node: int
    nodes: int
    port: int = 29400
    least: int = 0

    @property
    def is_elastic(self) -> bool:
        return 0 < self.least < self.nodes


def place_of(gang: dict[str, str]) -> GangPlace | None:
    """Returns None for a job of one VM. Raises ValueError."""
    if not gang:
        return None
    node, nodes = int(gang.get("node", -1)), int(gang.get("nodes", 0))
    place = GangPlace(node, nodes, int(gang.get("port", 29400)), int(gang.get("least", nodes)))
    if not 0 <= place.node < place.nodes or not 1024 <= place.port <= 65535 or not 0 < place.least <= place.nodes:
        raise ValueError("node must be below nodes, least no more than nodes, and port between 1024 and 65535")
    return place


def read_settings(text: str) -> tuple[AttemptSettings, list[str]]:
    """The settings, and the mistakes in them. With an attempt and a guard, mistakes can be reported to the guard."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise NotStarted("costguard-attempt is not a JSON object")
    fitting: dict[str, Any] = {}
    wrong: list[str] = []
    for name, default in AttemptSettings._field_defaults.items():
        value = document.get(name, default)
        if _is_like(value, default):
            fitting[name] = value
        else:
            wrong.append(f"{name} must be like {json.dumps(default)}")
    for name in ("step_pattern", "metric_pattern"):
        try:
            LogPattern(fitting.get(name, ""))
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            del fitting[name]
    try:
        place = place_of(fitting.get("gang", {}))
        if place is not None and place.node and not place.is_elastic:  # what all have made is published by the first
            fitting["outputs"], fitting["publish"] = {}, {}
    except ValueError as error:
        wrong.append(f"gang: {error}")
        del fitting["gang"]
    settings = AttemptSettings(**fitting)
    if not re.fullmatch(r"[a-zA-Z0-9][\w.-]{0,100}", settings.attempt, re.ASCII):
        raise NotStarted("costguard-attempt names no attempt")
    if not re.match(r"https?://", settings.guard):
        raise NotStarted("costguard-attempt does not say at which URL the guard is")
    if settings.save_on not in ("", "file", "SIGUSR1", "SIGUSR2"):
        wrong.append("save_on must be file, SIGUSR1 or SIGUSR2")
    if not settings.command and not settings.image:
        wrong.append("there is neither a command nor an image")
    return settings, wrong


def at_pace(settings: AttemptSettings, pace: float) -> AttemptSettings:
    """Returns settings in the fleet's seconds instead of the VM's, for looks and for the moment of a drill.

    The time that a process or Google takes is the VM's own, and heartbeats are as its guard wants them.
    """
    if pace == 1:
        return settings
    scaled = ("look_s", "activity_s", "drill_settle_s", "drill_stake_s")
    settings = settings._replace(**{name: getattr(settings, name) / pace for name in scaled})
    # The fleet's seconds already; but fewer looks than these may all fall into one pause of a busy computer.
    settings = settings._replace(hang_least_s=max(settings.hang_least_s, HANG_LOOKS * settings.heartbeat_s * pace))
    return settings._replace(activity_look_s=min(settings.activity_look_s, settings.activity_s / LOOKS_IN_A_MINUTE))


def _is_like(value: Any, default: Any) -> bool:
    if isinstance(default, float):
        return isinstance(value, (int, float))
    if isinstance(default, dict):
        return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    return isinstance(value, type(default))
