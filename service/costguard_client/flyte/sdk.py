"""The task and the connector for the Flyte 2 SDK, `flyte`. Its connector service loads this module by its entry point.

flyte 2.12: connectors/_connector.py (AsyncConnector, AsyncConnectorExecutorMixin) and connectors/_server.py, which
gives inputs as native values, and takes outputs so.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flyte.connectors import AsyncConnector, AsyncConnectorExecutorMixin, ConnectorRegistry, Resource, ResourceMeta
from flyte.extend import TaskTemplate
from flyte.io import DataFrame, Dir, File
from flyte.models import NativeInterface, SerializationContext
from flyteidl2.connector.connector_pb2 import GetTaskLogsResponse, GetTaskLogsResponseBody
from flyteidl2.core.execution_pb2 import TaskExecution, TaskLog
from google.protobuf import json_format

from costguard.errors import Invalid
from costguard_client.flyte import connection
from costguard_client.flyte.job import TASK_TYPE, CostguardJob, Place, execution_labels, request_of, with_labels


class CostguardSdkTask(AsyncConnectorExecutorMixin, TaskTemplate):
    """A task whose command runs on Costguard's VMs: CostguardTask for Flyte 2, whose files and folders are
    `flyte.io.File` and `flyte.io.Dir`.
    """

    def __init__(
        self,
        name: str,
        plugin_config: CostguardJob,
        inputs: Mapping[str, type] | None = None,
        outputs: Mapping[str, type] | None = None,
        **options: Any,
    ) -> None:
        wrong = [key for key, kind in (outputs or {}).items() if not _is_a(kind, File, Dir)]
        if wrong:
            raise Invalid(f"A command cannot return {', '.join(wrong)}.", "Declare flyte.io.File or flyte.io.Dir.")
        kinds = {key: "file" if _is_a(kind, File) else "folder" for key, kind in (outputs or {}).items()}
        interface = NativeInterface({key: (kind, None) for key, kind in (inputs or {}).items()}, dict(outputs or {}))
        super().__init__(name=name, interface=interface, task_type=TASK_TYPE, image=None, **options)
        self.plugin_config = plugin_config
        self._kinds = kinds

    def custom_config(self, sctx: SerializationContext) -> dict[str, Any]:
        return {"job": self.plugin_config.custom(), "outputs": self._kinds}


@dataclass
class CostguardSdkMeta(ResourceMeta):
    """A job and where its outputs will lie; `files` are the outputs that are one file each."""

    job_id: str
    owner: str = ""  # who cancels it, where the token speaks for no one
    outputs: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


class CostguardSdkConnector(AsyncConnector[CostguardSdkMeta]):
    """Creates, polls and cancels jobs over REST. COSTGUARD_URL and COSTGUARD_TOKEN name the server."""

    name = "Costguard"
    task_type_name = TASK_TYPE
    metadata_type = CostguardSdkMeta

    async def create(
        self,
        task_template: Any,
        output_prefix: str,
        inputs: Mapping[str, Any] | None = None,
        task_execution_metadata: Any = None,
        **_: Any,
    ) -> CostguardSdkMeta:
        """Raises CostguardError where the job is refused: nothing was launched then."""
        custom = json_format.MessageToDict(task_template.custom)
        kinds: dict[str, str] = custom.get("outputs", {})
        execution = _execution(task_execution_metadata)
        job = CostguardJob.of_custom(custom.get("job", {}))
        request = request_of(
            job,
            {key: _input(key, value) for key, value in (inputs or {}).items()},
            tuple(kinds),
            f"{output_prefix.rstrip('/')}/{execution}",
            name=task_template.id.name,
        )
        request = with_labels(request, _labels(task_execution_metadata))
        job_id = await connection.create(request, output_prefix, execution)
        files = [key for key, kind in kinds.items() if kind == "file"]
        return CostguardSdkMeta(job_id, job.owner, dict(request.outputs), files)

    async def get(self, resource_meta: CostguardSdkMeta, **_: Any) -> Resource:
        status = await connection.look(resource_meta.job_id)
        outputs = None
        if status.phase == "SUCCEEDED" and resource_meta.outputs:
            outputs = {
                key: (File if key in resource_meta.files else Dir).from_existing_remote(uri)
                for key, uri in resource_meta.outputs.items()
            }
        return Resource(
            phase=TaskExecution.Phase.Value(status.phase),
            message=status.message,
            log_links=[TaskLog(uri=status.page, name="Costguard job", ready=True, link_type=TaskLog.DASHBOARD)],
            outputs=outputs,
            custom_info={"job": resource_meta.job_id},
        )

    async def delete(self, resource_meta: CostguardSdkMeta, **_: Any) -> None:
        await connection.cancel(resource_meta.job_id, resource_meta.owner)

    async def get_logs(self, resource_meta: CostguardSdkMeta, **_: Any) -> AsyncIterator[GetTaskLogsResponse]:
        yield GetTaskLogsResponse(
            body=GetTaskLogsResponseBody(results=await connection.last_lines(resource_meta.job_id))
        )


def _labels(metadata: Any) -> dict[str, str]:
    """Returns the labels that name the run; none in a local one."""
    if metadata is None or not metadata.HasField("task_execution_id"):
        return {}
    run = metadata.task_execution_id.node_execution_id.execution_id
    return execution_labels(run.project, run.domain, run.name, getattr(metadata, "labels", None) or {})


def _execution(metadata: Any) -> str:
    """Names this try of this action. All local calls of a run share one output prefix, and have no metadata."""
    if metadata is None or not metadata.HasField("task_execution_id"):
        return secrets.token_hex(8)
    identity: bytes = metadata.task_execution_id.SerializeToString(deterministic=True)
    return hashlib.sha256(identity).hexdigest()[:16]


def _is_a(kind: object, *classes: type) -> bool:
    """Says whether a type is of a class; also for a generic such as `File[str]`."""
    origin = getattr(kind, "__origin__", kind)
    return isinstance(origin, type) and issubclass(origin, classes)


def _input(name: str, value: object) -> str | Place:
    match value:
        case File() | Dir():
            return Place(value.path)
        case DataFrame() if value.uri:
            return Place(value.uri)
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case timedelta():
            return f"{value.total_seconds():g}"
        case str() | int() | float():
            return str(value)
    raise Invalid(
        f"The input {name} is neither a number, a text, a time, a file, a folder nor a data frame.",
        "Hand it to the job in a file: flyte.io.File.",
    )


ConnectorRegistry.register(CostguardSdkConnector(), override=True)
