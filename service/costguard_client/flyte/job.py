"""The request of a Flyte task, and the job that it becomes. It needs no flytekit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from costguard.errors import Invalid
from costguard_client.api.task_options import FILLED, PLACES, TaskOptions

if TYPE_CHECKING:
    from costguard_client.api import schemas

TASK_TYPE = "costguard"
DATA = "/data"  # where inputs and outputs lie on the VM, unless the task says otherwise
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NO_LABEL = re.compile(r"[^a-z0-9_-]")  # what Google takes in no value of a label
_BUCKETS = ("s3://", "gs://", "file://")


@dataclass(frozen=True, kw_only=True)
class CostguardJob(TaskOptions):
    """The options of a task on Costguard's VMs. Names and meanings are those of `costguard launch`.

    `{name}` in the command, the environment, the resume template, the runs of trackers and in locations stands for the
    task's input of this name: a value, or the local path of a file or folder that is downloaded before the command
    starts. `{output}` of a declared output is the local path that is published when it succeeds. `inputs` and `outputs`
    set these paths; by default they are /data/NAME. `destinations` says where an output is published; by default it is
    the place that Flyte names for the execution.
    """

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

    body = _body_of(job, filled)
    body["name"] = body.get("name") or name
    body["command"] = body.get("command") or list(container)
    body |= {"image": job.image or container_image} if job.image or container_image else {}
    environment = {**container_environment, **body.get("environment", {})}
    body |= {"environment": environment} if environment else {}
    sources = {key: value.uri for key, value in inputs.items() if isinstance(value, Place) and key in paths}
    published = {key: filled(job.destinations.get(key, f"{output_prefix.rstrip('/')}/{key}")) for key in results}
    _check_places({**sources, **published})
    if sources:
        body["inputs"] = [{"source": uri, "path": paths[key]} for key, uri in sources.items()]
    if published:
        body["outputs"] = [{"path": results[key], "destination": uri} for key, uri in published.items()]
    made: Any = body
    return JobRequest(made, published)


def with_labels(request: JobRequest, labels: Mapping[str, str]) -> JobRequest:
    """Returns the same request with these labels on its VMs; what the task itself says counts more."""
    if not labels:
        return request
    body: Any = dict(request.body)
    body["labels"] = {**labels, **body.get("labels", {})}
    return replace(request, body=body)


def execution_labels(project: str, domain: str, name: str, of_pod: Mapping[str, str] = {}) -> dict[str, str]:
    """Returns the labels that name an execution of Flyte's, in the characters that Google takes.

    `of_pod` are the labels that Flyte gives the execution's pods: `workflow-name` of them names the workflow.
    """
    named = {"execution": name, "workflow": of_pod.get("workflow-name", ""), "project": project, "domain": domain}
    return {f"flyte-{part}": _NO_LABEL.sub("-", text.lower())[:63] for part, text in named.items() if text}


def _body_of(job: CostguardJob, filled: Callable[[str], str]) -> dict[str, Any]:
    """Returns the part of the request that the options make.

    Without a location nothing says where to save, so the rest about checkpoints is left out; so is a metric's.
    """
    body: dict[str, Any] = {}
    for name, value in job.custom().items():
        if name in PLACES:
            group, _, part = PLACES[name].rpartition(".")
            (body.setdefault(group, {}) if group else body)[part] = (
                _with_texts(value, filled) if name in FILLED else value
            )
    for group, wanted in (("checkpoint", job.checkpoint), ("metric", job.metric)):
        if not wanted:
            body.pop(group, None)
    return body


def _with_texts(value: Any, filled: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {key: filled(text) for key, text in value.items()}
    return filled(value) if isinstance(value, str) else [filled(word) for word in value]


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
