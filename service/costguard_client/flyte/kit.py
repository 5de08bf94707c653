"""Tasks and the connector for flytekit 1.16. The connector service loads this as a plugin of flytekit's.

flytekit 1.16: extend/backend/base_connector.py (AsyncConnectorBase, AsyncConnectorExecutorMixin) and
connector_service.py, which calls create, get and delete with the templates that flytepropeller sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from flyteidl.admin.agent_pb2 import GetTaskLogsResponse, GetTaskLogsResponseBody
from flyteidl.core.execution_pb2 import TaskExecution, TaskLog
from flytekit import FlyteContextManager, PythonFunctionTask
from flytekit.configuration import SerializationSettings
from flytekit.core.base_task import PythonTask
from flytekit.core.interface import Interface
from flytekit.extend import TaskPlugins
from flytekit.extend.backend.base_connector import (
    AsyncConnectorBase,
    AsyncConnectorExecutorMixin,
    ConnectorRegistry,
    Resource,
    ResourceMeta,
)
from flytekit.models.core.types import BlobType
from flytekit.models.literals import Blob, BlobMetadata, Literal, LiteralMap, Primitive, Scalar

from costguard.errors import Invalid
from costguard_client.flyte import connection
from costguard_client.flyte.job import TASK_TYPE, CostguardJob, Place, execution_labels, request_of, with_labels


class CostguardTask(AsyncConnectorExecutorMixin, PythonTask[CostguardJob]):
    """A task whose command runs on Costguard's VMs, from any image or from none.

    `inputs` and `outputs` are its interface: files and folders travel through buckets, other inputs are placeholders.
    """

    _TASK_TYPE = TASK_TYPE

    def __init__(
        self,
        name: str,
        task_config: CostguardJob,
        inputs: Mapping[str, type] | None = None,
        outputs: Mapping[str, type] | None = None,
        **options: Any,
    ) -> None:
        interface = Interface(inputs=dict(inputs or {}), outputs=dict(outputs or {}))
        super().__init__(task_type=self._TASK_TYPE, name=name, task_config=task_config, interface=interface, **options)

    def get_custom(self, settings: SerializationSettings) -> dict[str, Any]:
        return _config_of(self).custom()


class CostguardFunctionTask(AsyncConnectorExecutorMixin, PythonFunctionTask[CostguardJob]):
    """`@task(task_config=CostguardJob(...))`: the function runs on the VM, in its container image, by flytekit."""

    _TASK_TYPE = TASK_TYPE

    def __init__(self, task_config: CostguardJob, task_function: Any, **options: Any) -> None:
        super().__init__(task_config=task_config, task_type=self._TASK_TYPE, task_function=task_function, **options)

    def get_custom(self, settings: SerializationSettings) -> dict[str, Any]:
        return _config_of(self).custom()

    def execute(self, **values: Any) -> Any:
        """Runs the function itself, on the VM, and on a laptop whose data stays there."""
        context = FlyteContextManager.current_context()
        state = context.execution_state
        is_local = state is not None and state.is_local_execution()
        if is_local and context.file_access.is_remote(context.file_access.raw_output_prefix):
            return AsyncConnectorExecutorMixin.execute(self, **values)
        return PythonFunctionTask.execute(self, **values)


def _config_of(task: PythonTask[CostguardJob]) -> CostguardJob:
    config = task.task_config
    if not isinstance(config, CostguardJob):
        raise Invalid(
            f"The task {task.name} has no CostguardJob.", "Give it one: task_config=CostguardJob(preset=...)."
        )
    return config


@dataclass
class CostguardMeta(ResourceMeta):
    """A job and where its outputs will lie. `files` are the outputs that are one file each; `formats` are Flyte's."""

    job_id: str
    owner: str = ""  # who cancels it, where the token speaks for no one
    outputs: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)


class CostguardConnector(AsyncConnectorBase):
    """Creates, polls and cancels jobs over REST. COSTGUARD_URL and COSTGUARD_TOKEN name the server."""

    name = "Costguard"

    def __init__(self) -> None:
        super().__init__(task_type_name=TASK_TYPE, metadata_type=CostguardMeta)

    async def create(
        self,
        task_template: Any,
        output_prefix: str,
        inputs: LiteralMap | None = None,
        task_execution_metadata: Any = None,
        **_: Any,
    ) -> CostguardMeta:
        """Raises CostguardError where the job is refused: nothing was launched then."""
        container = task_template.container
        blobs = {} if container else _blob_types(task_template.interface.outputs)
        job = CostguardJob.of_custom(task_template.custom or {})
        request = request_of(
            job,
            {name: _input(name, literal) for name, literal in (inputs.literals if inputs else {}).items()},
            tuple(blobs),
            output_prefix,
            name=task_template.id.name if task_template.id else "",
            container=[*container.command, *container.args] if container else (),
            container_image=container.image if container else "",
            container_environment=container.env or {} if container else {},
        )
        request = with_labels(request, _labels(task_execution_metadata))
        job_id = await connection.create(request, output_prefix, *_execution(task_execution_metadata))
        files = [name for name, blob in blobs.items() if blob.dimensionality == BlobType.BlobDimensionality.SINGLE]
        formats = {name: blob.format for name, blob in blobs.items() if blob.format}
        return CostguardMeta(job_id, job.owner, dict(request.outputs), files, formats)

    async def get(self, resource_meta: CostguardMeta, **_: Any) -> Resource:
        status = await connection.look(resource_meta.job_id)
        has_ended_well = status.phase == "SUCCEEDED"
        return Resource(
            phase=TaskExecution.Phase.Value(status.phase),
            message=status.message,
            log_links=[TaskLog(uri=status.page, name="Costguard job")],
            outputs=_outputs(resource_meta) if has_ended_well and resource_meta.outputs else None,
            custom_info={"job": resource_meta.job_id},
        )

    async def delete(self, resource_meta: CostguardMeta, **_: Any) -> None:
        await connection.cancel(resource_meta.job_id, resource_meta.owner)

    async def get_logs(self, resource_meta: CostguardMeta, **_: Any) -> GetTaskLogsResponse:
        lines = await connection.last_lines(resource_meta.job_id)
        return GetTaskLogsResponse(body=GetTaskLogsResponseBody(results=lines))


def _input(name: str, literal: Literal) -> str | Place:
    """A value as text, or a file or folder. Raises Invalid for a type that has no text, such as a list."""
    scalar = literal.scalar
    if scalar is not None and scalar.union is not None:
        return _input(name, scalar.union.value)
    if scalar is not None and scalar.blob is not None:
        return Place(scalar.blob.uri)
    if scalar is not None and scalar.structured_dataset is not None:
        return Place(scalar.structured_dataset.uri)
    if scalar is not None and scalar.primitive is not None:
        return _text(scalar.primitive)
    if scalar is not None and scalar.none_type is not None:
        return ""
    raise Invalid(
        f"The input {name} is neither a number, a text, a time, a file, a folder nor a data frame.",
        "Hand it to the job in a file: FlyteFile.",
    )


def _text(primitive: Primitive) -> str:
    value = primitive.value
    if primitive.boolean is not None:
        return "true" if value else "false"
    if primitive.datetime is not None:
        moment = primitive.datetime
        return str((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat())
    if primitive.duration is not None:
        return f"{primitive.duration.total_seconds():g}"
    return str(value)


def _blob_types(variables: Mapping[str, Any]) -> dict[str, BlobType]:
    """Raises Invalid for outputs that are no files and no folders: a command returns nothing else."""
    wrong = [name for name, variable in variables.items() if variable.type.blob is None]
    if wrong:
        raise Invalid(
            f"A command cannot return {', '.join(wrong)}: its outputs are files and folders.",
            "Declare FlyteFile or FlyteDirectory, or make the task a function: @task(task_config=CostguardJob(...)).",
        )
    return {name: variable.type.blob for name, variable in variables.items()}


def _outputs(meta: CostguardMeta) -> LiteralMap:
    literals = {}
    for name, uri in meta.outputs.items():
        kinds = BlobType.BlobDimensionality
        kind = BlobType(meta.formats.get(name, ""), kinds.SINGLE if name in meta.files else kinds.MULTIPART)
        literals[name] = Literal(scalar=Scalar(blob=Blob(BlobMetadata(kind), uri)))
    return LiteralMap(literals)


def _labels(metadata: Any) -> dict[str, str]:
    """Returns the labels that name the execution; none in a local one."""
    if metadata is None or metadata.task_execution_id is None:
        return {}
    run = metadata.task_execution_id.node_execution_id.execution_id
    return execution_labels(run.project, run.domain, run.name, getattr(metadata, "labels", None) or {})


def _execution(metadata: Any) -> tuple[str, ...]:
    """Returns the names of this try of this node: flytepropeller repeats a create whose answer it lost."""
    if metadata is None or metadata.task_execution_id is None:
        return ()
    task = metadata.task_execution_id
    node = task.node_execution_id
    run = node.execution_id
    return run.project, run.domain, run.name, node.node_id, str(task.retry_attempt)


TaskPlugins.register_pythontask_plugin(CostguardJob, CostguardFunctionTask)
ConnectorRegistry.register(CostguardConnector(), override=True)
