"""Stacks are read from py-spy's text, and their files are shortened."""

from __future__ import annotations

import pytest

from costguard_vm.profile.frames import DEEPEST, OMITTED, Frame, cut, read_recorded, shortened

_LINES = """\
thread (77): MainThread;<module> (/home/ana/cats/train.py:1);train (/home/ana/cats/lib/loop.py:12) 4
thread (78): QueueFeederThread;Thread._bootstrap (/usr/lib/python3.11/threading.py:988) 9
process 77:"python train.py --token s3cret";process 91:"python train.py --token s3cret";thread (91): MainThread;\
<module> (/home/ana/cats/train.py:1);\
_worker_loop (/opt/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py:244);\
Rows.__getitem__ (/home/ana/cats/data.py:7) 3
process 77:"python train.py";process 92:"python -c x";thread (92): MainThread;\
main (/usr/lib/python3.11/multiprocessing/resource_tracker.py:200) 20
"""


def test_stacks_of_the_main_thread_and_of_workers_are_kept_apart() -> None:
    """Other threads and helper processes are left out, and of a forked worker the frames that started it."""
    main, workers = read_recorded(_LINES, ["77"], "/home/ana/cats")

    train, loop = Frame("<module>", "train.py", 1, is_own=True), Frame("train", "lib/loop.py", 12, is_own=True)
    assert main == {(train, loop): 4}
    worker = Frame("_worker_loop", "torch/utils/data/_utils/worker.py", 244, is_own=False)
    assert workers == {(worker, Frame("Rows.__getitem__", "data.py", 7, is_own=True)): 3}


def test_command_lines_and_home_folders_are_left_out() -> None:
    """They may hold a secret, or a person's name."""
    main, workers = read_recorded(_LINES, ["77"], "")

    assert "s3cret" not in repr((main, workers))
    assert "ana" not in repr((main, workers))


def test_a_thread_without_a_name_is_known_by_its_number() -> None:
    """A program that never imported threading names none."""
    line = "thread (0x7F01);f (a.py:1) 2\nthread (77);g (a.py:5) 3"

    main, _ = read_recorded(line, ["77", "1"], "")

    assert [stack[0].function for stack in main] == ["g"]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py", ("torch/nn/modules/module.py", False)),
        ("/work/.venv/lib/python3.12/site-packages/pandas/core/frame.py", ("pandas/core/frame.py", False)),
        ("/usr/lib/python3/dist-packages/numpy/lib/npyio.py", ("numpy/lib/npyio.py", False)),
        ("/usr/lib/python3.11/json/decoder.py", ("json/decoder.py", False)),
        ("/usr/lib64/python3.9/csv.py", ("csv.py", False)),
        ("<frozen importlib._bootstrap>", ("<frozen importlib._bootstrap>", False)),
        ("/work/src/data/rows.py", ("src/data/rows.py", True)),
        ("/elsewhere/deep/own/code.py", ("own/code.py", True)),
        ("/home/ana/code.py", ("code.py", True)),
        ("train.py", ("train.py", True)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_files_are_shortened_to_package_or_project(path: str, short: tuple[str, bool]) -> None:
    """A file in no library is the project's own."""
    assert shortened(path, "/work") == short


def test_a_deep_stack_loses_its_middle() -> None:
    """The outermost and the innermost functions say most."""
    stack = tuple(Frame(f"f{number}", "a.py", 1, is_own=True) for number in range(300))

    kept = cut(stack)

    assert len(kept) == DEEPEST
    assert (kept[0], kept[-1]) == (stack[0], stack[-1])
    assert OMITTED in kept
