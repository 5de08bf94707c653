"""Lines of programs that the reader was not made for, from public threads.

Each was read wrongly, or not at all, when it was first tried. Shortened where "..." would stand.
"""

from __future__ import annotations

from typing import Any

import pytest

from costguard_vm.progress.log_line import cleaned
from costguard_vm.progress.log_reader import readings
from costguard_vm.progress.track import Track

# The last line of each is the one that is read; those before it give it its context.
LINES: list[tuple[str, list[str], dict[str, Any] | None]] = [
    (
        "github.com/hiyouga/LlamaFactory/issues/774, trainer_log.jsonl",
        [
            '{"current_steps": 3200, "total_steps": 3235, "loss": 4.4671, "eval_loss": null, "predict_loss": null, '
            '"learning_rate": 1.4439610072863874e-08, "epoch": 0.99, "percentage": 98.92, "elapsed_time": "5:13:22"}'
        ],
        {
            "phase": "train",
            "step": 3200,
            "total": 3235,
            "epoch": 0.99,
            "loss": 4.4671,
            "metrics": {"learning_rate": 1.4439610072863874e-08},
        },
    ),
    (
        "github.com/modelscope/ms-swift/issues/4146: a memory size and a speed are no metrics",
        [
            "{'loss': 0.21932983, 'grad_norm': 0.57172734, 'learning_rate': 6.8e-07, 'memory(GiB)': 63.16, "
            "'train_speed(iter/s)': 0.011239, 'rewards/accuracies': 1.0, 'epoch': 0.89, "
            "'global_step/max_steps': '78/176', 'percentage': '44.32%', 'elapsed_time': '1h 54m 53s'}"
        ],
        {
            "phase": "train",
            "step": 78,
            "total": 176,
            "epoch": 0.89,
            "loss": 0.21932983,
            "metrics": {"grad_norm": 0.57172734, "learning_rate": 6.8e-07, "rewards/accuracies": 1},
        },
    ),
    (
        "github.com/modelscope/ms-swift/issues/4366: its bar counts the whole run, as its dictionaries say",
        [
            "{'loss': 0.2, 'epoch': 1.0, 'global_step/max_steps': '3098/9297'}",
            "Train:  33%|\u2588\u2588\u2588\u258e      | 3099/9297 [7:04:32<12:19:18,  7.16s/it][INFO:swift] last",
        ],
        {"phase": "train", "step": 3099, "total": 9297},
    ),
    (
        "github.com/k2-fsa/icefall/pull/399: the name of a file is no metric",
        [
            "2022-06-08 08:01:22,072 INFO [train.py:815] Epoch 1, batch 5, loss[loss=0.6028, simple_loss=1.206, "
            "pruned_loss=9.481, over 5392.00 frames.], tot_loss[loss=0.7444, simple_loss=1.489, pruned_loss=9.21, "
            "over 31213.18 frames.], batch size: 18, lr: 3.00e-03"
        ],
        {
            "phase": "train",
            "epoch": 1,
            "batch": 5,
            "loss": 0.6028,
            "metrics": {"simple_loss": 1.206, "pruned_loss": 9.481, "lr": 0.003},
        },
    ),
    (
        "icefall's validation is none of training",
        ["2022-06-08 08:11:22,072 INFO [train.py:900] (0/2) Epoch 1, validation: loss=0.2, simple_loss=0.4"],
        {"phase": "eval", "epoch": 1, "metrics": {"loss": 0.2, "simple_loss": 0.4}},
    ),
    (
        "github.com/open-mmlab/OpenPCDet/pull/1229",
        [
            "2023-01-05 16:34:49,377   INFO  Train:    1/3 ( 33%) [  49/323 ( 15%)]  Loss: 36.77 (81.7)  LR: 1.351e-04 "
            "Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 50          Data time: 0.00(0.02)  Batch time: 0.31(0.31)"
        ],
        {
            "phase": "train",
            "epoch": 1,
            "epoch_total": 3,
            "batch": 49,
            "batch_total": 323,
            "loss": 36.77,
            "metrics": {"LR": 0.0001351},
        },
    ),
    (
        "github.com/lightgbm-org/LightGBM/issues/3145, as R prints it",
        ["[5]:    train's l2:0.0950898    valid's l2:0.100327"],
        {"phase": "eval", "step": 5, "metrics": {"train's l2": 0.0950898, "valid's l2": 0.100327}},
    ),
    (
        "LightGBM repeats the best iteration at its end: that is no step back",
        ["[531]\tvalid_0's rmse: 28050.1", "Early stopping, best iteration is:", "[431]\tvalid_0's rmse: 28037.4"],
        None,
    ),
    (
        "CatBoost",
        ["100:\tlearn: 0.3125\ttest: 0.3331\tbest: 0.3331 (100)\ttotal: 5.1s\tremaining: 45.4s"],
        {"phase": "train", "step": 100, "metrics": {"learn": 0.3125, "test": 0.3331, "best": 0.3331}},
    ),
    (
        "github.com/ultralytics/ultralytics, its own bar of 8.4",
        [
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
            "        1/3      2.25G      1.108      2.683      1.233         13        640: 100% "
            "\u2501\u2501\u2501\u2501\u2501\u2501 4/4 3.1it/s 1.3s",
        ],
        {
            "phase": "train",
            "epoch": 1,
            "epoch_total": 3,
            "batch": 4,
            "batch_total": 4,
            "metrics": {"box_loss": 1.108, "cls_loss": 2.683, "dfl_loss": 1.233},
        },
    ),
    (
        "Lightning's RichProgressBar",
        [
            "Epoch 0/9  \u2501\u2501\u2501\u2578\u2501\u2501\u2501 10/100 0:00:05 \u2022 0:00:45 2.01it/s v_num: 0.000 "
            "train_loss: 1.234"
        ],
        {"phase": "train", "epoch": 0, "epoch_total": 9, "batch": 10, "batch_total": 100, "loss": 1.234},
    ),
    (
        "the same of its validation",
        ["Validation \u2501\u2501\u2578\u2501\u2501\u2501 1/10 0:00:05 \u2022 0:00:45 2.01it/s"],
        None,
    ),
    (
        "github.com/h2oai/h2o-llmstudio/pull/162",
        [
            "2023-06-14 22:28:50,406 - INFO: Training Epoch: 1 / 1",
            "2023-06-14 22:29:51,406 - INFO: train loss: 1.62:   5%|5         | 103/2068 [00:42<13:14,  2.47it/s]",
        ],
        {"phase": "train", "epoch": 1, "batch": 103, "batch_total": 2068, "loss": 1.62},
    ),
    (
        "github.com/verl-project/verl/issues/2566: Ray's prefix before a bar",
        ["(TaskRunner pid=87031) Training Progress:   0%|          | 2/624 [21:47<114:32:27, 662.94s/it]"],
        {"phase": "train", "step": 2, "total": 624},
    ),
    (
        "github.com/PRIME-RL/Entropy-Mechanism-of-RL/issues/21: a step's line with a validation is of training",
        [
            "step:4 - global_seqlen/min:192519 - actor/pg_loss:0.025 - actor/grad_norm:0.49 - perf/mfu/actor:0.456 - "
            "val-core/math/acc/mean@1:0.706"
        ],
        {
            "phase": "train",
            "step": 4,
            "metrics": {
                "global_seqlen/min": 192519,
                "actor/pg_loss": 0.025,
                "actor/grad_norm": 0.49,
                "val-core/math/acc/mean@1": 0.706,
            },
        },
    ),
    (
        "NeMo's bar has no rate",
        [
            "Epoch 0: :   1%|          | 100/10000 [02:00<3:18:00, reduced_train_loss=7.1, global_step=99.0, "
            "consumed_samples=25600.0, train_step_timing in s=1.23]"
        ],
        {
            "phase": "train",
            "step": 99,
            "epoch": 0,
            "batch": 100,
            "batch_total": 10000,
            "loss": 7.1,
            "metrics": {"consumed_samples": 25600},
        },
    ),
    (
        "OLMo's step counts the whole run: the outer counter stands first",
        ["2024-05-01 10:00:00,123 - OLMo - INFO - [step=100/739328,epoch=0]"],
        {"phase": "train", "step": 100, "total": 739328, "epoch": 0},
    ),
    (
        "OLMo's loss, in a line of its own",
        ["[step=100/739328]", "    train/CrossEntropyLoss=7.123"],
        {"phase": "train", "loss": 7.123},
    ),
    ("MosaicML's Composer", ["[batch=2/4800]:"], {"phase": "train", "step": 2, "total": 4800}),
    (
        "MosaicML's Composer, the loss",
        ["[batch=2/4800]:", "\t Train loss/train/total: 11.2"],
        {"phase": "train", "loss": 11.2},
    ),
    (
        "Megatron-LM's validation says its step",
        [" validation loss at iteration 1000 | lm loss value: 3.123000E+00 | lm loss PPL: 2.271E+01 |"],
        {"phase": "eval", "step": 1000, "metrics": {"lm loss value": 3.123, "lm loss PPL": 22.71}},
    ),
    (
        "graphdeco-inria/gaussian-splatting evaluates on both sets",
        ["[ITER 7000] Evaluating test: L1 0.0312 PSNR 27.31 [12/03 10:11:12]"],
        {"phase": "eval", "step": 7000, "metrics": {"PSNR": 27.31}},
    ),
    (
        "OpenRLHF: a bar with two counters is no heading of a table",
        ["Train epoch [1/1]:  10%|\u2588         | 12/120 [00:30<04:30,  2.50s/it, policy_loss=0.12, kl=0.01]"],
        {
            "phase": "train",
            "epoch": 1,
            "epoch_total": 1,
            "batch": 12,
            "batch_total": 120,
            "metrics": {"policy_loss": 0.12, "kl": 0.01},
        },
    ),
    (
        "RSL-RL in Isaac Lab",
        ["                        Learning iteration 12/1500                        "],
        {"phase": "train", "step": 12, "total": 1500},
    ),
    ("the steps of an episode are none of training", ["Episode 100: reward = 12.3, steps = 200"], None),
    (
        "so-vits-svc and VITS: a share of an epoch is no count of batches",
        ["INFO:baker:Train Epoch: 12 [34%]"],
        {"phase": "train", "epoch": 12},
    ),
    (
        "coqui-ai/TTS: an evaluation's averages are none of training",
        [" > EPOCH: 0/1000", "     | > loss: 3.12  (3.2)", "  --> EVAL PERFORMANCE", "     | > avg_loss: 3.0"],
        {"phase": "eval", "metrics": {"avg_loss": 3}},
    ),
    (
        "huggingface/transformers, run_clm_no_trainer.py: a date of the United States",
        ["06/01/2024 10:00:00 - INFO - __main__ - epoch 0: perplexity: 12.3 eval_loss: 2.5"],
        {"phase": "eval", "epoch": 0, "metrics": {"perplexity": 12.3, "eval_loss": 2.5}},
    ),
    (
        "tensorflow/models, object detection",
        ["I0615 12:00:00.000000 140 model_lib_v2.py:705] Step 100 per-step time 0.345s"],
        {"phase": "train", "step": 100},
    ),
    (
        "github.com/speechbrain/speechbrain/pull/2216: below a line that names the epoch, a bar is of the epoch",
        [
            "speechbrain.utils.epoch_loop - Going into epoch 2",
            "100%|\u2588\u2588\u2588\u2588| 190/190 [03:02<00:00,  1.04it/s, train_loss=0.726]",
        ],
        {"phase": "train", "epoch": 2, "batch": 190, "batch_total": 190, "loss": 0.726},
    ),
    (
        "the same: the validation's bar",
        [
            "speechbrain.utils.epoch_loop - Going into epoch 2",
            "100%|\u2588\u2588\u2588\u2588| 190/190 [03:02<00:00,  1.04it/s, train_loss=0.726]",
            "100%|\u2588\u2588\u2588\u2588| 137/137 [01:43<00:00,  1.33it/s]",
        ],
        None,
    ),
    (
        "github.com/speechbrain/speechbrain/issues/938: tqdm without room for a bar",
        ["100% 2774/2774 [14:15<00:00,  3.24it/s, train_loss=5.86]"],
        {"phase": "train", "step": 2774, "total": 2774, "loss": 5.86},
    ),
    (
        "github.com/unslothai/unsloth/issues/1140, of a notebook",
        ["[ 22/290 02:50 < 38:04, 0.12 it/s, Epoch 0.36/5]"],
        {"phase": "train", "step": 22, "total": 290, "epoch": 0.36, "epoch_total": 5},
    ),
    (
        "github.com/PeixianChen/DFFT/issues/4: OpenMMLab's iter begins again with every epoch",
        [
            '{"mode": "train", "epoch": 1, "iter": 7300, "lr": 1e-05, "loss": 2.13622, "time": 2.63489}',
            '{"mode": "train", "epoch": 2, "iter": 50, "lr": 1e-05, "memory": 9810, "loss": 1.80794, "time": 0.61618}',
        ],
        {"phase": "train", "epoch": 2, "batch": 50, "loss": 1.80794, "metrics": {"lr": 1e-05}},
    ),
    (
        "OpenMMLab's evaluation, whose iter counts its own batches",
        ['{"mode": "val", "epoch": 1, "iter": 625, "lr": 0.02, "bbox_mAP": 0.123, "bbox_mAP_50": 0.25}'],
        {"phase": "eval", "epoch": 1, "metrics": {"lr": 0.02, "bbox_mAP": 0.123, "bbox_mAP_50": 0.25}},
    ),
    (
        "MMEngine's evaluation, whose step is an epoch",
        ['{"coco/bbox_mAP": 0.32, "data_time": 0.01, "time": 0.02, "step": 1}'],
        {"phase": "eval", "metrics": {"coco/bbox_mAP": 0.32}},
    ),
    (
        "github.com/YkiWu/EmbodiedOcc/issues/6: a date with strokes",
        ["2025/07/08 00:15:42 - mmengine - INFO - [TRAIN] Epoch 1 Iter 111/125 Loss: 125.720, GradNorm: 2.094"],
        {
            "phase": "train",
            "epoch": 1,
            "batch": 111,
            "batch_total": 125,
            "loss": 125.72,
            "metrics": {"GradNorm": 2.094},
        },
    ),
    (
        "AI-Hypercomputer/maxtext, an evaluation",
        ["eval metrics after step: 9, loss=10.266, total_weights=75264.0"],
        {"phase": "eval", "step": 9, "metrics": {"loss": 10.266}},
    ),
    (
        "github.com/MIC-DKFZ/nnUNet/issues/2140: a loss alone in its line",
        ["2024-04-26 09:39:10.910043: Epoch 0", "2024-04-26 09:41:39.493872: train_loss 0.7088"],
        {"phase": "train", "epoch": 0, "loss": 0.7088},
    ),
    (
        "the same: its validation is of the epoch that a line named",
        ["2024-04-26 09:39:10.910043: Epoch 0", "2024-04-26 09:41:39.498914: val_loss 0.4628"],
        {"phase": "eval", "epoch": 0, "metrics": {"val_loss": 0.4628}},
    ),
    (
        "NVIDIA-NeMo/RL: a step between rules",
        ["========================= Step 1/1000 ========================="],
        {"phase": "train", "step": 1, "total": 1000},
    ),
    (
        "a container's log",
        ["2024-06-01T10:00:00.123456789Z stdout F  10%|\u2588         | 10/100 [00:10<01:30,  1.00s/it]"],
        {"phase": "train", "step": 10, "total": 100},
    ),
    (
        "mpirun --tag-output",
        ["[1,0]<stdout>: 20%|\u2588\u2588        | 20/100 [00:10<01:30,  1.00s/it]"],
        {"phase": "train", "step": 20, "total": 100},
    ),
    (
        "DeepSpeed on several hosts: the prefix of a line is no metric",
        ["10.0.0.1: [2023-08-07 06:25:48,219] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0"],
        {"phase": "train", "step": 10},
    ),
]


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_line_is_read_right(lines: list[str], expected: dict[str, Any] | None) -> None:
    """Phase, step, epoch, batch, loss and metrics: no more, and no less."""
    read = {place: reading.as_json() for place, reading in readings(lines)}
    assert read.get(len(lines) - 1) == expected


def test_a_bar_that_begins_again_was_of_an_epoch() -> None:
    """A bar without a title and without a heading seems to be the whole run's until it begins again."""
    bar = "{share}%|##  | {done}/190 [01:34<01:34,  1.01it/s, loss=1.3]"
    shares = ((50, 95), (100, 190), (0, 0), (50, 95), (100, 190), (5, 10))
    track, states = Track(), []
    for second, (_, reading) in enumerate(readings(bar.format(share=share, done=done) for share, done in shares)):
        track.take(reading, "2026-11-30T00:00:00Z", float(second))
        states.append(track.state())
    assert [state["done"] for state in states] == [95, 190, 190, 285, 380, 390]
    assert [state.get("of") for state in states] == [190, 190, None, None, None, None]
    assert [state["unit"] for state in states] == ["step", "step", "batch", "batch", "batch", "batch"]
    assert "step" not in states[-1]


@pytest.mark.parametrize("word", ["epoch", "step", "batch", "Epoch \u2502"])
def test_long_runs_of_blanks_are_shortened(word: str) -> None:
    """The patterns of counters would take seconds over 400 blanks, and days over 4,000: tables are padded with them."""
    line = f"{word}{' ' * 400}7{' ' * 400}done"
    assert cleaned(line) == f"{word}{' ' * 8}7{' ' * 8}done"
    assert [reading.as_json() for _, reading in readings([line])] == [
        reading.as_json() for _, reading in readings([cleaned(line)])
    ]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ('{"loss": NaN, "step": NaN, "epoch": Infinity}', {"phase": "train", "loss": "nan"}),
        ("{'loss': 1.5, 'step': 1e400, 'epoch': 1e999}", {"phase": "train", "loss": 1.5}),
        (f"{{'loss': 1.5, 'step': {'9' * 400}}}", {"phase": "train", "loss": 1.5}),
        (f"{{'loss': 1.5, 'step': {'9' * 5_000}}}", None),  # more digits than Python converts
        (f"step {'9' * 5_000}/{'9' * 6_000} loss: 1.5", None),
        (f"step: {'9' * 1_000} loss: 1.5", {"phase": "train", "loss": 1.5}),
        ("1764489600123456789 step: 7 loss: 1.5", {"phase": "train", "step": 7, "loss": 1.5}),
    ],
    ids=["nan", "infinite", "huge", "unconvertible", "fraction", "words", "nanoseconds"],
)
def test_count_of_nothing_is_left_out_and_the_next_line_is_read(line: str, read: dict[str, Any] | None) -> None:
    """Python's own json writes NaN and Infinity; a reader that fails on one line would read no more of the run."""
    lines = [line, "step: 8 loss: 1.25"]
    shown = {place: reading.as_json() for place, reading in readings(lines)}
    assert shown.get(0) == read
    assert shown[1] == {"phase": "train", "step": 8, "loss": 1.25}
