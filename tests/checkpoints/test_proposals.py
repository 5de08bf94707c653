"""Layouts that no rule recognises get a proposal, judged by the rules that a job would use."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.checkpoints import writers
from tests.checkpoints.places import Memory

from costguard_vm.model.checkpoint import LookFor

BODY = b"x" * 100
# As they are named by their savers: Stable-Baselines3 (CheckpointCallback), fairseq (checkpoint_utils.py), nanoGPT
# (train.py), PaddlePaddle (paddle.save in its guides), YOLOv5 (train.py), and what people make up.
NUMBERED = [
    (["rl_model_10000_steps.zip", "rl_model_20000_steps.zip"], "rl_model_{step}_steps.zip", [10000, 20000]),
    (["checkpoint_1_500.pt", "checkpoint_2_1000.pt", "checkpoint_last.pt"], "checkpoint_*_{step}.pt", [500, 1000]),
    (["epoch_1.pdparams", "epoch_1.pdopt", "epoch_2.pdparams", "epoch_2.pdopt"], None, [1, 2]),
    (["weights/epoch0.pt", "weights/epoch10.pt", "weights/last.pt"], "weights/epoch{step}.pt", [0, 10]),
    (["ckpt_0100.pkl"], "ckpt_{step}.pkl", [100]),
    (["model-10-loss=0.231.npz", "model-20-loss=0.199.npz"], "model-{step}-loss=*.npz", [10, 20]),
    (["epoch=1-step=100.npz", "epoch=2-step=200.npz"], "epoch=*-step={step}.npz", [100, 200]),
    (["model_v2_100.npz", "model_v2_200.npz"], "model_v2_{step}.npz", [100, 200]),
    (["step_100/model.npz", "step_200/model.npz"], "step_{step}/model.npz", [100, 200]),
    (["step_100/model_100.npz", "step_200/model_200.npz"], "step_{step}/model_{step}.npz", [100, 200]),
    (["2026-01-01_10-00_step500.pkl", "2026-01-01_11-00_step900.pkl"], None, [500, 900]),
    (["model-10-acc=93.pkl", "model-20-acc=95.pkl"], "model-{step}-acc=*.pkl", [10, 20]),
    (["resnet50_10.pkl"], "resnet50_{step}.pkl", [10]),
    (["run/ckpt-100", "run/ckpt-200"], "run/ckpt-{step}", [100, 200]),
]


def _option(text: str) -> tuple[str, str]:
    """Pattern and marker of a proposal."""
    pattern = text.partition("--pattern '")[2].partition("'")[0]
    return pattern, text.partition("--marker '")[2].partition("'")[0]


@pytest.mark.parametrize(("names", "pattern", "steps"), NUMBERED)
def test_proposed_pattern_recognises_the_files(names: list[str], pattern: str | None, steps: list[int]) -> None:
    """A job launched with it would resume from the newest; logs next to them change nothing."""
    files = [(name, BODY) for name in [*names, "train.log", "config.json", "events.out.tfevents.17000.host"]]
    text = Memory(files).look().unrecognised
    assert text.startswith("no layout recognises ")
    proposed, marker = _option(text)
    assert (proposed, marker) == (pattern or proposed, "")
    look = Memory(files).look(look_for=LookFor(pattern=proposed))
    assert sorted(one.step for one in look.checkpoints if one.step is not None) == steps


def test_folders_of_several_files_need_a_marker() -> None:
    """The file that was written last in the newest one."""
    place = Memory([(f"step_{step}/{name}", BODY) for step in (100, 200) for name in ("a.pkl", "z.pkl", "DONE")])
    files = {
        path: replace(file, modified_at=file.modified_at + number * timedelta(seconds=1))
        for number, (path, file) in enumerate(place.listing.files.items())
    }
    place.listing = replace(place.listing, files=files)
    proposed = _option(place.look().unrecognised)
    assert proposed == ("step_{step}/", "DONE")
    look = place.look(look_for=LookFor(pattern=proposed[0], marker=proposed[1]))
    assert [one.step for one in look.checkpoints] == [200, 100]
    assert look.resume is not None


def test_one_file_that_is_written_over_is_named_as_the_location() -> None:
    """The file is saved as nanoGPT saves `ckpt.pt`."""
    assert Memory([("ckpt.pt", BODY), ("train.log", b"x")]).look().unrecognised == (
        "no layout recognises ckpt.pt in gs://runs/one: launch it with --checkpoint gs://runs/one/ckpt.pt"
    )


@pytest.mark.parametrize(
    "names",
    [
        ["events.out.tfevents.1700.host", "train.log", "config.json", "wandb/run-1/files/model.pt"],
        ["tmp-checkpoint-500/model.safetensors", "README.md"],
        [],
    ],
)
def test_what_trainers_leave_beside_checkpoints_warns_of_nothing(names: list[str]) -> None:
    """The files that a saver has not renamed yet warn of nothing either."""
    assert Memory([(name, BODY) for name in names]).look().unrecognised == ""


def test_what_a_layout_knows_is_no_news() -> None:
    """Complete or torn; further down its location is named."""
    files = writers.hugging_face(7)
    assert Memory(files).look().unrecognised == ""
    assert Memory(files[:-1]).look().unrecognised == ""
    deeper = Memory([(f"ana/llama/{path}", body) for path, body in files]).look().unrecognised
    assert deeper.endswith("name the location gs://runs/one/ana/llama instead")


def test_a_first_save_has_a_minute() -> None:
    """It may give its files their names at its end."""
    look = Memory([("ckpt_0100.pkl", BODY)]).look()
    (file,) = look.listing.files.values()
    assert look.unprotected(file.modified_at + timedelta(seconds=59)) == ""
    assert look.unprotected(file.modified_at + timedelta(seconds=60)) == look.unrecognised
