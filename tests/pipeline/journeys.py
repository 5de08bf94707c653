"""The ways from a laptop to a finished model that are tried: a project, its flags, and when its VM is taken away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECTS = Path(__file__).parent / "projects"
DATA, RUNS, MODELS = "acme-data", "acme-runs", "acme-models"  # buckets
LAST_STEP = 90  # of each script


@dataclass(frozen=True)
class Interruption:
    """The VM is taken away while a transfer of an object with `part` in its name is in its middle.

    Without a `method`, it is taken away once the command has begun to save `part`. `shows` is on the job's page then.
    Of so many checkpoints as `spared`, the transfers are not held.
    """

    what: str
    method: str = ""
    part: str = ""
    shows: str = ""
    spared: int = 0


@dataclass(frozen=True)
class Journey:
    """`options` go to `costguard launch`, and `command` to the VM. `{vm}` in either is the VM's own folder."""

    name: str
    title: str
    options: tuple[str, ...]
    command: tuple[str, ...]
    model: str  # the file of the final weights, below the output
    interruptions: tuple[Interruption, ...]

    @property
    def project(self) -> Path:
        return PROJECTS / self.name

    @property
    def checkpoints(self) -> str:
        return f"s3://{RUNS}/{self.name}"

    @property
    def output(self) -> str:
        return f"s3://{MODELS}/{self.name}"


def _options(name: str, resume: str, *more: str) -> tuple[str, ...]:
    return (
        "--input", f"s3://{DATA}/v7={{vm}}/data",
        "--checkpoint", f"s3://{RUNS}/{name}", "--local", "{vm}/out", "--resume", resume, *more,
        "--output", f"{{vm}}/model=s3://{MODELS}/{name}",
    )  # fmt: skip


JOURNEYS = (
    Journey(
        "hugging_face",
        "Transformers Trainer",
        _options(
            "hugging_face",
            "--resume_from_checkpoint {checkpoint}",
            "--framework",
            "hugging-face",
            "--metric",
            r"'loss': '?([0-9.]+)",
        ),
        (
            "python", "train.py", "--data", "{vm}/data", "--output_dir", "{vm}/out", "--model_dir", "{vm}/model",
        ),
        "model.safetensors",
        (
            Interruption("during an upload of a checkpoint", "PUT", f"/{RUNS}/hugging_face/", spared=1),
            Interruption(
                "during the download of the checkpoint to resume from",
                "GET",
                f"/{RUNS}/hugging_face/",
                "Its upload was not finished",
            ),
            Interruption("in training, with a notice", "", "checkpoint-60"),
        ),
    ),
    Journey(
        "lightning_fit",
        "Lightning Trainer",
        _options("lightning_fit", "--ckpt_path {checkpoint}", "--framework", "lightning"),
        (
            "python", "train.py", "--data", "{vm}/data", "--checkpoints", "{vm}/out", "--model_dir", "{vm}/model",
        ),
        "model.pt",
        (
            Interruption("during the download of the data", "GET", f"/{DATA}/v7/tokens-0002.npy"),
            Interruption("during an upload of a checkpoint", "PUT", f"/{RUNS}/lightning_fit/", spared=1),
        ),
    ),
    Journey(
        "torch_loop",
        "plain PyTorch loop",
        _options("torch_loop", "--resume {checkpoint}", "--pattern", "ckpt_{step}.pt"),
        (
            "python", "train.py", "--data", "{vm}/data", "--out", "{vm}/out", "--model", "{vm}/model/model.pt",
        ),
        "model.pt",
        (
            Interruption("in training, with a notice", "", "ckpt_45.pt"),
            Interruption("while the output was being uploaded", "PUT", f"/{MODELS}/torch_loop/"),
        ),
    ),
)  # fmt: skip
