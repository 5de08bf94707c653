"""The reader reads the output of real programs.

Each case names a line's public thread, or the program of its format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard_vm.progress.log_reader import LINE_END, readings

SHARED = Path(__file__).parents[3] / "shared" / "training-logs"

# The last line of each is the one that is read; those before it give it its context.
LINES: list[tuple[str, list[str], dict[str, Any] | None]] = [
    (
        "github.com/facebookresearch/fairseq/issues/301",
        ["| epoch 004 | valid on 'valid' subset  1000 / 1311 loss=3.24"],
        None,
    ),
    (
        "github.com/facebookresearch/fairseq/issues/301",
        [
            "| epoch 005 | train loss 2.92 | train ppl 7.59 | s/checkpoint    7748 | words/s    961 "
            "| words/batch    906 | bsz    32 | lr 0.001000 | clip 100% | gnorm 2.6727"
        ],
        {"phase": "train", "epoch": 5, "loss": 2.92, "metrics": {"train ppl": 7.59, "lr": 0.001, "gnorm": 2.6727}},
    ),
    (
        "github.com/facebookresearch/flores/issues/7",
        [
            "| epoch 081 | valid on 'valid' subset | loss 6.846 | nll_loss 4.610 | ppl 24.41 | num_updates 10092 "
            "| best_loss 6.84088"
        ],
        {
            "phase": "eval",
            "epoch": 81,
            "step": 10092,
            "metrics": {"loss": 6.846, "nll_loss": 4.61, "ppl": 24.41, "best_loss": 6.84088},
        },
    ),
    (
        "github.com/Lightning-AI/litgpt/issues/1110",
        ["Epoch 4 | iter 961 step 961 | loss train: 1.062, val: 1.057 | iter time: 529.46 ms (step)"],
        {"phase": "train", "epoch": 4, "step": 961, "loss": 1.062, "metrics": {"val": 1.057}},
    ),
    (
        "github.com/Lightning-AI/litgpt/issues/1042",
        [
            "iter 1820 | step 227: loss 2.1728, iter time: 104.73 ms",
            "iter 4800: val loss 1.7258, val time: 3778.02 ms",
        ],
        {"phase": "eval", "metrics": {"val loss": 1.7258}},
    ),
    (
        "github.com/isaac-sim/IsaacLab/issues/5084",
        ["                        Mean value loss: 19.6685"],
        None,
    ),
    (
        "github.com/verl-project/verl/issues/2566",
        ["Training Progress:   0%|          | 2/624 [21:47<114:32:27, 662.94s/it]"],
        {"phase": "train", "step": 2, "total": 624},
    ),
    (
        "github.com/pytorch/torchtitan/pull/3393",
        [
            "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  grad_norm:  0.8319  "
            "memory:  9.46GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%"
        ],
        {"phase": "train", "step": 14, "loss": 3.24405, "metrics": {"grad_norm": 0.8319}},
    ),
    (
        "github.com/AI-Hypercomputer/maxtext/pull/4847",
        [
            "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: 1, seconds: 0.631, "
            "TFLOP/s/device: 5688.282, Tokens/s/device: 311629.521, total_weights: 1572864, loss: 12.979, "
            "lm_loss: 12.979, perplexity: 433358.281"
        ],
        {"phase": "train", "step": 1, "loss": 12.979, "metrics": {"lm_loss": 12.979, "perplexity": 433358.281}},
    ),
    (
        "github.com/NVIDIA-BioNeMo/bionemo-recipes/pull/740",
        [
            "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | "
            "global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106"
        ],
        {
            "phase": "train",
            "step": 120,
            "epoch": 0,
            "loss": 1.233,
            "metrics": {"lr": 3e-05, "consumed_samples": 121, "val_loss": 4.106},
        },
    ),
    (
        "github.com/NVIDIA/NeMo-Framework-Launcher/issues/55",
        [
            "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, "
            "reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]"
        ],
        {
            "phase": "train",
            "step": 794,
            "epoch": 0,
            "batch": 795,
            "batch_total": 77225,
            "loss": 3.1,
            "metrics": {"reduced_train_loss": 3.09, "consumed_samples": 1630000},
        },
    ),
    (
        "github.com/official-stockfish/nnue-pytorch/pull/441",
        ["Epoch  7 (Train): 100%|  1526/1526  [00:23<00:00,  62.19it/s, train_loss=0.00550]"],
        {"phase": "train", "epoch": 7, "loss": 0.0055},
    ),
    (
        "github.com/pytorch/xla/pull/4112",
        ["| Training Device=xla:0/2 Epoch=1 Step=0 Loss=2.30627 Rate=2269.54 GlobalRate=2269.16 Time=21:35:07"],
        {"phase": "train", "step": 0, "epoch": 1, "loss": 2.30627},
    ),
    (
        "github.com/espnet/espnet/issues/3370",
        ["iterations:57, train acc:0.440, train loss:616.408, train loss ctc:1156.613, train loss att:76.203,"],
        {
            "phase": "train",
            "step": 57,
            "loss": 616.408,
            "metrics": {"train acc": 0.44, "train loss ctc": 1156.613, "train loss att": 76.203},
        },
    ),
    (
        "github.com/facebookresearch/fairseq/issues/2493",
        [
            '2021-01-05 21:39:04 | INFO | train_inner | {"epoch": 14, "update": 13.161, "loss": "1174.06", "ntokens": '
            '"9396.51", "nll_loss": "10.797", "wps": "2219.4", "num_updates": "400", "lr": "1.57308e-05", '
            '"loss_scale": "0.5", "train_wall": "636", "wall": "1496"}'
        ],
        {
            "phase": "train",
            "step": 400,
            "epoch": 14,
            "loss": 1174.06,
            "metrics": {"nll_loss": 10.797, "lr": 1.57308e-05},
        },
    ),
    (
        "github.com/facebookresearch/detectron2/issues/1134: an eta with a comma",
        [
            "[04/01 17:30:43 d2.utils.events]:  eta: 2 days, 12:13:20  iter: 319  total_loss: 3.342  loss_cls: 1.466  "
            "time: 0.4089  data_time: 0.0023  lr: 0.006394  max_mem: 4237M"
        ],
        {"phase": "train", "step": 319, "loss": 3.342, "metrics": {"loss_cls": 1.466, "lr": 0.006394}},
    ),
    (
        "github.com/facebookresearch/detectron2/issues/214",
        ["[11/01 19:16:10 d2.engine.train_loop]: Starting training from iteration 0"],
        None,
    ),
    (
        "github.com/open-mmlab/mmdetection/issues/11893",
        [
            "08/03 22:09:24 - mmengine - INFO - Epoch(train)  [1][ 500/2931]  lr: 2.0000e-02  eta: 0:39:15  "
            "time: 0.0578  data_time: 0.0017  memory: 2389  loss: nan  loss_rpn_cls: nan  acc: 0.0000"
        ],
        {
            "phase": "train",
            "epoch": 1,
            "batch": 500,
            "batch_total": 2931,
            "loss": "nan",
            "metrics": {"lr": 0.02, "loss_rpn_cls": "nan", "acc": 0},
        },
    ),
    (
        "github.com/pytorch/examples, imagenet",
        ["Epoch: [0][   1/5005]\tTime  5.123 ( 5.123)\tData  4.001 ( 4.001)\tLoss 7.0213e+00 (7.0213e+00)\tAcc@1 0.39"],
        {"phase": "train", "epoch": 0, "batch": 1, "batch_total": 5005, "loss": 7.0213, "metrics": {"Acc@1": 0.39}},
    ),
    ("pytorch/examples, imagenet: a validation that is not over", ["Test: [  1/196]\tLoss 1.20e+00 (1.20e+00)"], None),
    (
        "pytorch/examples, mnist",
        ["Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.134270"],
        {"phase": "train", "epoch": 1, "batch": 640, "batch_total": 60000, "loss": 2.13427},
    ),
    (
        "pytorch/examples, mnist: 9852/10000 is no value",
        ["Test set: Average loss: 0.0456, Accuracy: 9852/10000 (99%)"],
        {"phase": "eval", "metrics": {"Average loss": 0.0456}},
    ),
    (
        "pytorch.org/tutorials, quickstart",
        ["Epoch 1", "-------", "loss: 2.303494  [   64/60000]"],
        {"phase": "train", "epoch": 1, "batch": 64, "batch_total": 60000, "loss": 2.303494},
    ),
    (
        "pytorch.org/tutorials, quickstart: the heading of an evaluation",
        ["Test Error: ", " Accuracy: 65.6%, Avg loss: 1.070529 "],
        {"phase": "eval", "metrics": {"Accuracy": 65.6, "Avg loss": 1.070529}},
    ),
    (
        "huggingface/pytorch-image-models",
        ["Train: 0 [   0/1251 (  0%)]  Loss: 6.95 (6.95)  Time: 5.123s,   24.98/s  LR: 1.000e-06  Data: 2.312 (2.312)"],
        {"phase": "train", "epoch": 0, "batch": 0, "batch_total": 1251, "loss": 6.95, "metrics": {"LR": 1e-06}},
    ),
    ("pytorch-image-models: the best of all epochs is no news", ["*** Best metric: 75.31 (epoch 12)"], None),
    (
        "facebookresearch/fairseq, its JSON with numbers as texts",
        ['2021-01-01 10:00:00 | INFO | train | {"epoch": 1, "loss": "12.123", "wps": "12000", "num_updates": "100"}'],
        {"phase": "train", "step": 100, "epoch": 1, "loss": 12.123},
    ),
    (
        "facebookresearch/detectron2",
        [
            "[09/01 10:00:00 d2.utils.events]:  eta: 1:20:30  iter: 19  total_loss: 4.512  loss_cls: 4.3  "
            "data_time: 0.0212  lr: 1.6e-05  max_mem: 2000M"
        ],
        {"phase": "train", "step": 19, "loss": 4.512, "metrics": {"loss_cls": 4.3, "lr": 1.6e-05}},
    ),
    (
        "pytorch/torchtitan",
        ["[titan] 2024-10-01 10:00:00 - root - INFO - step: 10  loss:  8.1234  memory: 20.12GiB(21.17%)  tps: 1,234"],
        {"phase": "train", "step": 10, "loss": 8.1234},
    ),
    (
        "pytorch/torchtune",
        ["1|25|Loss: 1.234567:   3%|▎         | 25/812 [00:30<15:20,  1.17s/it]"],
        {"phase": "train", "step": 25, "epoch": 1, "loss": 1.234567},
    ),
    (
        "KellerJordan/modded-nanogpt",
        ["step:125/1750 val_loss:4.5123 train_time:12012ms step_avg:100.12ms"],
        {"phase": "eval", "step": 125, "total": 1750, "metrics": {"val_loss": 4.5123}},
    ),
    (
        "karpathy/llm.c",
        ["step  100/19560 | loss 5.123456 (+1.21z)| norm 0.5123 (-0.3z)| lr 8.57e-05 | 2123.12 ms | 55.1% bf16 MFU"],
        {"phase": "train", "step": 100, "total": 19560, "loss": 5.123456, "metrics": {"norm": 0.5123, "lr": 8.57e-05}},
    ),
    (
        "keras.io, Keras 3, with colours",
        [
            "Epoch 1/5",
            "\x1b[1m 100/1875\x1b[0m \x1b[32m━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m2s\x1b[0m 1ms/step - loss: 0.81",
        ],
        {"phase": "train", "epoch": 1, "epoch_total": 5, "batch": 100, "batch_total": 1875, "loss": 0.81},
    ),
    (
        "PaddlePaddle/PaddleOCR",
        ["[2023/01/01 10:00:00] ppocr INFO: epoch: [1/500], global_step: 10, acc: 0.51, loss: 21.1, cost: 0.1 s"],
        {"phase": "train", "step": 10, "epoch": 1, "epoch_total": 500, "loss": 21.1, "metrics": {"acc": 0.51}},
    ),
    (
        "yunjey/pytorch-tutorial: its step begins again with each epoch",
        ["Epoch [1/5], Step [100/600], Loss: 0.1234"],
        {"phase": "train", "epoch": 1, "epoch_total": 5, "batch": 100, "batch_total": 600, "loss": 0.1234},
    ),
    (
        "open-mmlab/mmengine",
        ["10/01 10:00:00 - mmengine - INFO - Iter(train) [   50/160000]  lr: 1e-02  memory: 8000  loss: 2.12"],
        {"phase": "train", "step": 50, "total": 160000, "loss": 2.12, "metrics": {"lr": 0.01}},
    ),
    (
        "AI-Hypercomputer/maxtext",
        ["completed step: 10, seconds: 1.212, TFLOP/s/device: 100.123, Tokens/s/device: 5000.1, loss: 10.812"],
        {"phase": "train", "step": 10, "loss": 10.812},
    ),
    (
        "fastai, a table",
        [
            "epoch     train_loss  valid_loss  accuracy  time    ",
            "0         0.5123      0.4123      0.8712    00:10     ",
        ],
        {"phase": "train", "epoch": 0, "loss": 0.5123, "metrics": {"valid_loss": 0.4123, "accuracy": 0.8712}},
    ),
    (
        "huggingface/diffusers",
        ["Steps:  5%|▌         | 41/3280 [00:50<1:06:54,  1.24s/it, lr=0.0001, step_loss=0.123]"],
        {"phase": "train", "step": 41, "total": 3280, "loss": 0.123, "metrics": {"lr": 0.0001}},
    ),
    (
        "transformers 5: numbers as texts",
        ["{'loss': '1.234', 'grad_norm': '2.1', 'learning_rate': '5e-05', 'epoch': '0.1'}"],
        {"phase": "train", "epoch": 0.1, "loss": 1.234, "metrics": {"grad_norm": 2.1, "learning_rate": 5e-05}},
    ),
    (
        "transformers: its averages over the run are no current loss",
        ["***** train metrics *****", "  train_loss = 1.12"],
        None,
    ),
    ("datasets: a bar of another task", ["Map:  32%|███▏      | 3200/10000 [00:01<00:02, 3000.12 examples/s]"], None),
    ("transformers: loading", ["Loading checkpoint shards: 100%|██████████| 2/2 [00:01<00:00,  1.10it/s]"], None),
    ("transformers: a total is no step", ["  Total optimization steps = 532"], None),
    ("transformers: a setting", ["  Gradient Accumulation steps = 8"], None),
    (
        "transformers: an evaluation's bar",
        ["  2%|▏ | 10/532 [00:10<08:12,  1.06it/s]", "100%|█| 13/13 [00:02<00:00,  5.1it/s]"],
        None,
    ),
    ("a message about a checkpoint", ["Resuming training from checkpoint at step 500"], None),
    ("a loss scale", ["Loss scale: 65536"], None),
    ("versions and sizes", ["Using 4 GPUs, batch size 32, version 2.1, seed 42"], None),
    (
        "PaddlePaddle/PaddleFormers#823",
        ["[2020-08-16 12:50:06,106] [   TRAIN] - step 10 / 231: loss=0.82945 f1=0.37425 [step/sec: 4.88]"],
        {"phase": "train", "step": 10, "total": 231, "loss": 0.82945, "metrics": {"f1": 0.37425}},
    ),
    (
        "global steps of PaddleNLP's examples",
        ["global step 200/10000, epoch: 1, batch: 199, loss: 0.345678, speed: 3.21 step/s"],
        {"phase": "train", "step": 200, "total": 10000, "epoch": 1, "loss": 0.345678},
    ),
    (
        "LorrinWWW/two-are-better-than-one#24",
        ["g_step 2000, step 152, avg_time 0.874, loss:51.5502"],
        {"phase": "train", "step": 2000, "loss": 51.5502},
    ),
    (
        "an evaluation's tag before its step",
        ["2026-11-01 10:00:00 - INFO - [eval] step 5000 loss=2.45 ppl=11.58"],
        {"phase": "eval", "step": 5000, "metrics": {"loss": 2.45, "ppl": 11.58}},
    ),
    ("the loss of what is loaded", ["Loaded checkpoint at epoch 12, step 3000 (loss 0.5)"], None),
    (
        "Keras with verbose=2",
        ["Epoch 12/50", " - 3s - loss: 0.4321 - acc: 0.9123 - val_loss: 0.4123 - val_acc: 0.9234"],
        {
            "phase": "train",
            "epoch": 12,
            "epoch_total": 50,
            "loss": 0.4321,
            "metrics": {"acc": 0.9123, "val_loss": 0.4123, "val_acc": 0.9234},
        },
    ),
    (
        "an epoch beyond an earlier total",
        ["Epoch [3/10], Loss: 0.5", "epoch 12 | loss 0.4"],
        {"phase": "train", "epoch": 12, "loss": 0.4},
    ),
    (
        "nan is kept",
        ["iter 3010: loss nan, time 1019.95ms, mfu 14.12%"],
        {"phase": "train", "step": 3010, "loss": "nan"},
    ),
]


@pytest.mark.parametrize(("lines", "expected"), [line[1:] for line in LINES], ids=[line[0] for line in LINES])
def test_a_line_of_a_real_program_is_read(lines: list[str], expected: dict[str, Any] | None) -> None:
    """Step, epoch, loss and metrics by the program's own names; nothing where the line says nothing about them."""
    read = {place: reading.as_json() for place, reading in readings(lines)}
    assert read.get(len(lines) - 1) == expected


def test_a_step_that_begins_again_is_a_batch() -> None:
    """Steps printed with a whole epoch are the run's only while they go on over epochs."""
    lines = [f"Epoch {epoch}, Step {step}, Loss 0.{step}" for epoch in (1, 2) for step in (100, 200)]
    assert [reading.step for _, reading in readings(lines)] == [100, 200, None, None]


def test_a_step_with_a_total_that_goes_on_over_epochs_is_the_runs() -> None:
    """PaddleSeg's iter counts the whole run; known once an epoch has ended."""
    lines = [f"epoch: {epoch}, iter: {step}/500, loss: 2.0" for epoch, step in ((1, 360), (2, 380), (2, 400))]
    read = [(reading.step, reading.total, reading.batch) for _, reading in readings(lines)]
    assert read == [(None, None, 360), (380, 500, None), (400, 500, None)]


def test_a_hostile_line_costs_little() -> None:
    """Long lines without structure are cut: no line takes a reader more than a moment."""
    lines = ["loss" * 500_000, "a " * 1_000_000, "[" * 100_000, "{'" * 100_000, "0/" * 200_000, "Epoch [" * 100_000]
    lines += ["\u2501" * 100_000, "(T " + "a=b" * 100_000, "1% \u2501" * 50_000]
    assert list(readings(lines)) == []


def test_the_recorded_samples_are_all_read_right() -> None:
    """Every value that is expected of 40 pieces of real output, and nothing of a piece that says nothing."""
    if not SHARED.exists():
        pytest.skip("the recorded samples are not here: ../shared/training-logs")
    wrong: list[object] = []
    for sample in json.loads((SHARED / "expected.json").read_text()):
        with (SHARED / sample["file"]).open(newline="") as source:
            read = {place: reading.as_json() for place, reading in readings(LINE_END.split(source.read()))}
        if not sample["expected"] and read:
            wrong.append((sample["id"], read))
        for expected in sample["expected"]:
            accepted = expected.get("accept", {})
            got = read.get(expected["line"], {})
            for field, value in expected.items():
                name = {"step_total": "total"}.get(field, field)
                if field == "metrics":
                    missing = {key: want for key, want in value.items() if got.get("metrics", {}).get(key) != want}
                    wrong += [(sample["id"], expected["line"], missing)] if missing else []
                elif field not in ("line", "accept") and got.get(name) not in [value, *accepted.get(field, [])]:
                    wrong.append((sample["id"], expected["line"], {field: got.get(name)}))
    assert wrong == []
