"""Calls a connector service of the Flyte 2 SDK as a cluster does: `python sdk_calls.py PORT` prints what came of it."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from flyte._internal.runtime.convert import convert_from_native_to_inputs
from flyte._internal.runtime.task_serde import get_proto_task
from flyte.connectors.utils import is_terminal_phase
from flyte.models import SerializationContext
from flyteidl2.connector import connector_pb2
from flyteidl2.connector.service_pb2_grpc import AsyncConnectorServiceStub
from flyteidl2.core.execution_pb2 import TaskExecution
from flyteidl2.core.identifier_pb2 import NodeExecutionIdentifier, TaskExecutionIdentifier

import flyte
from costguard_client.flyte import CostguardJob
from costguard_client.flyte.sdk import CostguardSdkTask

TYPES = {"rate": float, "count": int, "flag": bool, "when": datetime, "span": timedelta, "word": str}
VALUES = {
    "rate": 0.1,
    "count": 7,
    "flag": True,
    "when": datetime(2026, 11, 22, 8, tzinfo=UTC),
    "span": timedelta(minutes=90),
    "word": "two words; $HOME {rate}",
}


def task(name: str, code: str) -> CostguardSdkTask:
    command = (sys.executable, "-c", code, *(f"{{{key}}}" for key in TYPES))
    config = CostguardJob(preset="t4", owner="ana@example.com", command=command, max_crashes=0, keep=None)
    task = CostguardSdkTask(name, config, inputs=TYPES)
    flyte.TaskEnvironment.from_task(f"jobs-{name}", task)
    return task


async def main(port: str) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        service = AsyncConnectorServiceStub(channel)
        short = task("short", "import sys; print('given', sys.argv[1:])")
        first, again, retried = [await _create(service, short, attempt) for attempt in (0, 0, 1)]
        phases = [await _ended(service, first)]
        slow = await _create(service, task("slow", "import threading; threading.Event().wait()"), 0)
        for _ in range(2):  # a delete that is repeated is harmless
            await service.DeleteTask(connector_pb2.DeleteTaskRequest(resource_meta=slow, **_category()))
        phases.append(await _ended(service, slow))
        phases.append(await _ended(service, retried))
        jobs = [json.loads(meta)["job_id"] for meta in (first, again, retried, slow)]
        print("RESULT", json.dumps({"jobs": jobs, "phases": phases}))


async def _create(service: AsyncConnectorServiceStub, called: CostguardSdkTask, attempt: int) -> bytes:
    context = SerializationContext(project="lab", domain="development", org="", version="v1", root_dir=Path())
    template = get_proto_task(called, context)
    inputs = await convert_from_native_to_inputs(called.native_interface, **VALUES)
    node = NodeExecutionIdentifier(node_id=f"n-{called.name}")
    execution = TaskExecutionIdentifier(task_id=template.id, node_execution_id=node, retry_attempt=attempt)
    request = connector_pb2.CreateTaskRequest(
        template=template,
        inputs=inputs.proto_inputs,
        output_prefix="s3://acme/flyte/run-1",
        task_execution_metadata=connector_pb2.TaskExecutionMetadata(task_execution_id=execution),
    )
    created = await service.CreateTask(request)
    meta: bytes = created.resource_meta
    return meta


async def _ended(service: AsyncConnectorServiceStub, meta: bytes) -> dict[str, str]:
    while True:
        answer = await service.GetTask(connector_pb2.GetTaskRequest(resource_meta=meta, **_category()))
        if is_terminal_phase(answer.resource.phase):
            link = answer.resource.log_links[0]
            return {
                "phase": TaskExecution.Phase.Name(answer.resource.phase),
                "message": answer.resource.message,
                "link": link.uri,
            }
        await asyncio.sleep(0.5)


def _category() -> dict[str, connector_pb2.TaskCategory]:
    return {"task_category": connector_pb2.TaskCategory(name="costguard", version=0)}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
