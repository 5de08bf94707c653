"""A workflow of flytekit 1.16 with a function that runs on a VM of Costguard.

`pyflyte run --raw-output-data-prefix s3://... function_pipeline.py pipeline --count 7`
"""

from __future__ import annotations

import os

from flytekit import task, workflow

from costguard_client.flyte import CostguardJob

ON_THE_VM = {name: os.environ[name] for name in os.environ if name.startswith(("AWS_", "FLYTE_AWS_", "PYTHON"))}


@task(
    task_config=CostguardJob(preset="t4", owner="ana@example.com", environment={**ON_THE_VM, "ON_THE_VM": "yes"}),
    container_image="lab/flows:3",
)
def squares(count: int) -> list[int]:
    if "ON_THE_VM" not in os.environ:
        raise RuntimeError("it runs on the laptop")
    return [number * number for number in range(count)]


@task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@workflow
def pipeline(count: int) -> int:
    return total(numbers=squares(count=count))  # type: ignore[no-any-return]  # a promise
