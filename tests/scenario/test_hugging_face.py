"""A real Trainer of Transformers, where it is installed: killed while it saves, and resumed by its job's template."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from costguard.checkpoints.client import StoredCheckpoints
from costguard.checkpoints.stores import Access
from costguard.engine.jobs.resume import expanded
from costguard.model.checkpoint import CheckpointState, Framework, LookFor
from costguard.model.job import CheckpointPlan

# All of it is made here: nothing is fetched. `die-at` kills it between two files of that step's checkpoint.
TRAINS = """
import argparse, hashlib, os, pathlib, signal, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
parser = argparse.ArgumentParser()
parser.add_argument("--folder")
parser.add_argument("--die-at", type=int)
parser.add_argument("--resume_from_checkpoint")
given = parser.parse_args()
class Dies(Trainer):
    def _save_rng_state(self, output_dir):
        if self.state.global_step == given.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._save_rng_state(output_dir)
set_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, n_positions=16, vocab_size=32))
numbers = torch.randint(0, 32, (64, 16), generator=torch.Generator().manual_seed(2))
data = [{"input_ids": row, "labels": row} for row in numbers]
how = TrainingArguments(given.folder, max_steps=12, save_steps=4, per_device_train_batch_size=4, use_cpu=True,
    report_to=[], disable_tqdm=True, logging_strategy="no", seed=1, dataloader_pin_memory=False)
Dies(model, how, train_dataset=data).train(resume_from_checkpoint=given.resume_from_checkpoint)
weights = b"".join(one.detach().numpy().tobytes() for one in model.state_dict().values())
pathlib.Path(given.folder, "result").write_text(hashlib.sha256(weights).hexdigest())
"""


def test_a_trainer_goes_on_from_its_last_whole_checkpoint(tmp_path: Path) -> None:
    """Not from the newer one that was being written; the result is that of a run that nobody interrupted."""
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "accelerate")):
        pytest.skip("PyTorch and Transformers are not installed")
    folder, plain = tmp_path / "run", tmp_path / "plain"
    assert _train(folder, "--die-at", "8") == -9
    plan = CheckpointPlan(f"file://{folder}", "--resume_from_checkpoint {checkpoint}", LookFor(Framework.HUGGING_FACE))
    look = StoredCheckpoints(Access()).look(plan.location, plan.look_for)
    assert [(one.step, one.state) for one in look.checkpoints] == [
        (8, CheckpointState.TORN),
        (4, CheckpointState.COMPLETE),
    ]
    assert look.resume is not None
    assert _train(folder, *expanded(plan, look.resume.resume_from, look.resume.step)) == 0
    assert _train(plain) == 0
    assert (folder / "result").read_text() == (plain / "result").read_text()


def _train(folder: Path, *more: str) -> int:
    """Its exit code; below 0 a signal."""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HOME": str(folder / "home")}
    command = [sys.executable, "-c", TRAINS, "--folder", str(folder), *more]
    return subprocess.run(command, env=variables, capture_output=True, timeout=300, check=False).returncode
