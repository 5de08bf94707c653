"""The same workflow for the Flyte 2 SDK: `python sdk_pipeline.py RATE RUN` prints what the last task read."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from flyte.io import Dir

import flyte
from costguard_client.flyte import CostguardJob
from costguard_client.flyte.sdk import CostguardSdkTask

OWN = os.environ["OWN_FOLDER"]  # on the VM
FIT = Path(__file__).with_name("fit.py")
BUCKET_VARIABLES = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}

train = CostguardSdkTask(
    name="train",
    plugin_config=CostguardJob(
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
        ceiling="20",
        environment=BUCKET_VARIABLES,
        inputs={"data": f"{OWN}/data"},
        outputs={"model": f"{OWN}/model"},
        destinations={"model": "s3://acme/models/{run}"},
    ),
    inputs={"data": Dir, "rate": float, "run": str},
    outputs={"model": Dir},
)  # fmt: skip
jobs = flyte.TaskEnvironment.from_task("jobs", train)
env = flyte.TaskEnvironment("pipeline", depends_on=[jobs])


@env.task
async def prepare(count: int) -> Dir:
    folder = Path(tempfile.mkdtemp())
    (folder / "numbers.txt").write_text("\n".join(str(number) for number in range(count)))
    return await Dir.from_local(str(folder), remote_destination="s3://acme/data/sdk")


@env.task
async def read(model: Dir) -> str:
    folder = Path(await model.download(tempfile.mkdtemp()))
    return json.dumps(json.loads(next(folder.rglob("model.json")).read_text()), sort_keys=True)


@env.task
async def pipeline(rate: float, run: str) -> str:
    text: str = await read(await train(data=await prepare(7), rate=rate, run=run))
    return text


if __name__ == "__main__":
    flyte.init(storage=flyte.storage.S3.auto() if hasattr(flyte, "storage") else None)
    run = flyte.with_runcontext(mode="local").run(pipeline, float(sys.argv[1]), sys.argv[2])
    print("RESULT", run.outputs()[0])
