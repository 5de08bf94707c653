"""Calls a connector service of flytekit as flytepropeller does: `python kit_calls.py PORT` prints what came of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from datetime import UTC, datetime, timedelta

import grpc
from flyteidl.admin import agent_pb2
from flyteidl.core.execution_pb2 import TaskExecution
from flyteidl.core.identifier_pb2 import (
    NodeExecutionIdentifier,
    TaskExecutionIdentifier,
    WorkflowExecutionIdentifier,
)
from flyteidl.service.agent_pb2_grpc import AsyncAgentServiceStub
from flytekit import FlyteContextManager, kwtypes
from flytekit.configuration import ImageConfig, SerializationSettings
from flytekit.core.type_engine import TypeEngine
from flytekit.extend.backend.utils import is_terminal_phase
from flytekit.tools.translator import get_serializable

from costguard_client.flyte import CostguardJob, CostguardTask

TYPES = {"rate": float, "count": int, "flag": bool, "when": datetime, "span": timedelta, "word": str}
VALUES = {
    "rate": 0.1,
    "count": 7,
    "flag": True,
    "when": datetime(2026, 11, 22, 8, tzinfo=UTC),
    "span": timedelta(minutes=90),
    "word": "two words; $HOME {rate}",
}


def task(name: str, code: str) -> CostguardTask:
    command = (sys.executable, "-c", code, *(f"{{{key}}}" for key in TYPES))
    config = CostguardJob(preset="t4", owner="ana@example.com", command=command, max_crashes=0, keep=None)
    return CostguardTask(name, config, inputs=kwtypes(**TYPES))


async def main(port: str) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        service = AsyncAgentServiceStub(channel)
        short = task("short", "import sys; print('given', sys.argv[1:])")
        first, again, retried = [await _create(service, short, attempt) for attempt in (0, 0, 1)]
        phases = [await _ended(service, first)]
        slow = await _create(service, task("slow", "import threading; threading.Event().wait()"), 0)
        for _ in range(2):  # a delete that is repeated is harmless
            await service.DeleteTask(agent_pb2.DeleteTaskRequest(resource_meta=slow, **_category()))
        phases.append(await _ended(service, slow))
        phases.append(await _ended(service, retried))
        jobs = [json.loads(meta)["job_id"] for meta in (first, again, retried, slow)]
        print("RESULT", json.dumps({"jobs": jobs, "phases": phases}))


async def _create(service: AsyncAgentServiceStub, called: CostguardTask, attempt: int) -> bytes:
    settings = SerializationSettings(ImageConfig(), project="lab", domain="development", version="v1")
    template = get_serializable(OrderedDict(), settings, called).template
    inputs = TypeEngine.dict_to_literal_map(FlyteContextManager.current_context(), VALUES, TYPES)
    run = WorkflowExecutionIdentifier(project="lab", domain="development", name="run-1")
    node = NodeExecutionIdentifier(node_id=f"n-{called.name}", execution_id=run)
    execution = TaskExecutionIdentifier(
        task_id=template.id.to_flyte_idl(), node_execution_id=node, retry_attempt=attempt
    )
    request = agent_pb2.CreateTaskRequest(
        template=template.to_flyte_idl(),
        inputs=inputs.to_flyte_idl(),
        output_prefix=f"s3://acme/flyte/run-1/{called.name}/{attempt}",
        task_execution_metadata=agent_pb2.TaskExecutionMetadata(task_execution_id=execution),
    )
    created = await service.CreateTask(request)
    meta: bytes = created.resource_meta
    return meta


async def _ended(service: AsyncAgentServiceStub, meta: bytes) -> dict[str, str]:
    while True:
        answer = await service.GetTask(agent_pb2.GetTaskRequest(resource_meta=meta, **_category()))
        if is_terminal_phase(answer.resource.phase):
            link = answer.resource.log_links[0]
            return {
                "phase": TaskExecution.Phase.Name(answer.resource.phase),
                "message": answer.resource.message,
                "link": link.uri,
            }
        await asyncio.sleep(0.5)


def _category() -> dict[str, agent_pb2.TaskCategory]:
    return {"task_category": agent_pb2.TaskCategory(name="costguard", version=0)}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
