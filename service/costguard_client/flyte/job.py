"""The request of a Flyte task, and the job that it becomes. It needs no flytekit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from costguard.errors import Invalid

if TYPE_CHECKING:
    from costguard_client.api import schemas

TASK_TYPE = "costguard"
DATA = "/data"  # where inputs and outputs lie on the VM, unless the task says otherwise
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BUCKETS = ("s3://", "gs://", "file://")
_RECIPE = ("zones", "spot", "machine_type", "disk_gib", "max_run_hours", "on_demand_fallback")
_RUNS = ("mlflow_run", "wandb_run")
_CHECKPOINT = ("resume", "framework", "pattern", "marker", "local", "keep", "uploads_itself")
_PLAIN = (
    "preset", "project", "owner", "name", "image", "pull", "secrets", "workdir", "mounts", "setup", "code", "aws_role",
    "bandwidth_mib_s", "step_pattern", "ceiling", "deadline", "deadline_in_hours", "work_hours", "total_steps",
    "when_late", "on_hang", "stacks", "drill", "max_preemptions", "max_crashes",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CostguardJob:
    """The options of a task on Costguard's VMs. Names and meanings are those of `costguard launch`.

    `{name}` in the command, the environment, the resume template, the runs of trackers and in locations stands for the
    task's input of this name: a value, or the local path of a file or folder that is downloaded before the command
    starts. `{output}` of a declared output is the local path that is published when it succeeds. `inputs` and `outputs`
    set these paths; by default they are /data/NAME. `destinations` says where an output is published; by default it is
    the place that Flyte names for the execution.
    """

    preset: str
    command: Sequence[str] = ()
    image: str = ""
    pull: bool | None = None
    spot: bool | None = None
    on_demand_fallback: bool | None = None
    zones: Sequence[str] = ()
    machine_type: str | None = None
    disk_gib: int | None = None
    max_run_hours: float | None = None
    checkpoint: str = ""
    local: str = ""
    resume: str = ""
    framework: str | None = None
    pattern: str = ""
    marker: str = ""
    keep: int | None = None
    uploads_itself: bool | None = None
    ceiling: str | None = None
    deadline: str | None = None
    deadline_in_hours: float | None = None
    work_hours: float | None = None
    total_steps: int | None = None
    when_late: Literal["finish", "stop"] | None = None
    on_hang: Literal["tell", "restart"] | None = None
    stacks: bool | None = None
    drill: bool | None = None
    max_preemptions: int | None = None
    max_crashes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    code: Mapping[str, Any] | None = None
    workdir: str = ""
    mounts: Sequence[str] = ()
    aws_role: str = ""
    bandwidth_mib_s: int | None = None
    mlflow_run: str = ""
    wandb_run: str = ""
    step_pattern: str = ""
    metric: str = ""
    better: Literal["lower", "higher"] = "lower"
    project: str = ""
    owner: str = ""
    name: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)

    def custom(self) -> dict[str, Any]:
        """Returns the options as a task template carries them, as JSON."""
        given = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value not in (None, "", (), [], {})}

    @classmethod
    def of_custom(cls, custom: Mapping[str, Any]) -> CostguardJob:
        """The reverse, also after protobuf, whose only numbers are floats. Raises Invalid."""
        unknown = set(custom) - {part.name for part in fields(cls)}
        if unknown or "preset" not in custom:
            wrong = f"does not know {', '.join(sorted(unknown))}" if unknown else "was given no preset"
            raise Invalid(f"This connector {wrong}.", "Use the same version of costguard for tasks and connector.")
        return cls(**{name: _whole(value) for name, value in custom.items()})


@dataclass(frozen=True)
class Place:
    """A file or folder that an input names."""

    uri: str


@dataclass(frozen=True)
class JobRequest:
    """The body of POST /jobs, and where each output will lie."""

    body: schemas.JobBody
    outputs: Mapping[str, str]


def request_of(
    job: CostguardJob,
    inputs: Mapping[str, str | Place],
    output_names: Sequence[str],
    output_prefix: str,
    name: str = "",
    container: Sequence[str] = (),
    container_image: str = "",
    container_environment: Mapping[str, str] = {},
) -> JobRequest:
    """`inputs` are the values of the task's inputs, as text, and its files and folders. `container` is the command of a
    task that is a Python function. Raises Invalid for what cannot reach a VM.
    """
    paths = {key: job.inputs.get(key, f"{DATA}/{key}") for key, value in inputs.items() if isinstance(value, Place)}
    results = {key: job.outputs.get(key, f"{DATA}/{key}") for key in output_names}
    if container:
        paths, results = {}, {}  # the function's own runtime reads and writes them
    values = {key: paths.get(key, value if isinstance(value, str) else value.uri) for key, value in inputs.items()}
    values |= results

    def filled(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)

    given = job.custom()
    body: dict[str, Any] = {key: given[key] for key in _PLAIN if key in given}
    body["name"] = filled(job.name) or name
    body["command"] = [filled(word) for word in job.command] or list(container)
    body |= {"image": job.image or container_image} if job.image or container_image else {}
    body |= {key: filled(given[key]) for key in _RUNS if key in given}
    environment = {**container_environment, **{key: filled(text) for key, text in job.environment.items()}}
    body |= {"environment": environment} if environment else {}
    if job.checkpoint:
        how = {key: given[key] for key in _CHECKPOINT if key in given}
        how |= {"resume": filled(job.resume)} if job.resume else {}
        body["checkpoint"] = {"location": filled(job.checkpoint), **how}
    if job.metric:
        body["metric"] = {"pattern": job.metric, "better": job.better}
    if recipe := {key: given[key] for key in _RECIPE if key in given}:
        body["overrides"] = recipe
    sources = {key: value.uri for key, value in inputs.items() if isinstance(value, Place) and key in paths}
    published = {key: filled(job.destinations.get(key, f"{output_prefix.rstrip('/')}/{key}")) for key in results}
    _check_places({**sources, **published})
    if sources:
        body["inputs"] = [{"source": uri, "path": paths[key]} for key, uri in sources.items()]
    if published:
        body["outputs"] = [{"path": results[key], "destination": uri} for key, uri in published.items()]
    made: Any = body
    return JobRequest(made, published)


def _check_places(places: Mapping[str, str]) -> None:
    for key, uri in places.items():
        if not uri.startswith(_BUCKETS):
            raise Invalid(
                f"{key} is at {uri}, which a VM cannot reach.",
                # flytekit uploads a local folder to the raw output prefix only in executions that are not local.
                "Name a bucket: FlyteDirectory(path, remote_directory='s3://BUCKET/PREFIX') for an input, and"
                " --raw-output-data-prefix s3://BUCKET/PREFIX or `destinations` for an output.",
            )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value if isinstance(value, str | bool | int | float) else [_plain(part) for part in value]


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
