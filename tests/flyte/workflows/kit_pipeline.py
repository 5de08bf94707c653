"""A workflow of flytekit 1.16: data to S3, a training on Spot, and a task that reads the model from S3.

`pyflyte run --raw-output-data-prefix s3://... kit_pipeline.py pipeline --rate 0.1 --run r1`
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from flytekit import kwtypes, task, workflow
from flytekit.types.directory import FlyteDirectory

from costguard_client.flyte import CostguardJob, CostguardTask

OWN = os.environ["OWN_FOLDER"]  # on the VM
FIT = Path(__file__).with_name("fit.py")
BUCKET_VARIABLES = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


@task
def prepare(count: int) -> FlyteDirectory:
    folder = Path(tempfile.mkdtemp())
    (folder / "numbers.txt").write_text("\n".join(str(number) for number in range(count)))
    return FlyteDirectory(str(folder), remote_directory="s3://acme/data/kit")  # else it stays here in a local execution


train = CostguardTask(
    name="train",
    task_config=CostguardJob(
        preset="t4",
        buy="spot",
        owner="ana@example.com",
        command=(
            sys.executable, str(FIT), "--data", "{data}", "--rate", "{rate}",
            "--checkpoints", f"{OWN}/checkpoints", "--model", "{model}",
        ),
        checkpoint="s3://acme/runs/{run}",
        local=f"{OWN}/checkpoints",
        framework="files",
        pattern="fit-{step}.json",
        resume="--from {checkpoint}",
        step_pattern=r"step (\d+)",
        metric=r"loss (\S+)",
        ceiling="20",
        environment=BUCKET_VARIABLES,
        inputs={"data": f"{OWN}/data"},
        outputs={"model": f"{OWN}/model"},
    ),
    inputs=kwtypes(data=FlyteDirectory, rate=float, run=str),
    outputs=kwtypes(model=FlyteDirectory),
)  # fmt: skip


@task
def read(model: FlyteDirectory) -> str:
    return json.dumps(json.loads((Path(model.download()) / "model.json").read_text()), sort_keys=True)


@workflow
def pipeline(rate: float, run: str) -> str:
    return read(model=train(data=prepare(count=7), rate=rate, run=run))  # type: ignore[no-any-return]  # a promise
