"""Profiles of a training before and after a change: a data frame that was indexed by rows, and its arrays."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.jobs.decide.profile.job_profile import ProfileWindow
from costguard.jobs.rows.profile import profile_rows
from costguard.jobs.rows.profile.profile_rows import NewProfileWindow
from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackProfile, group_of

_MAIN, _TRAIN = Frame("<module>", "train.py", 1, is_own=True), Frame("train_epoch", "train.py", 41, is_own=True)
_NEXT = Frame("_BaseDataLoaderIter.__next__", "torch/utils/data/dataloader.py", 720, is_own=False)
_WAIT = Frame("_MultiProcessingDataLoaderIter._next_data", "torch/utils/data/dataloader.py", 1500, is_own=False)
_STEP, _BACK = (
    Frame("train_step", "train.py", 22, is_own=True),
    Frame("backward", "torch/autograd/__init__.py", 255, is_own=False),
)
_LOOP = Frame("_worker_loop", "torch/utils/data/_utils/worker.py", 244, is_own=False)
_FETCH = Frame("_MapDatasetFetcher.fetch", "torch/utils/data/_utils/fetch.py", 48, is_own=False)
_ITEM = Frame("Rows.__getitem__", "data.py", 14, is_own=True)
_ILOC = Frame("_LocationIndexer.__getitem__", "pandas/core/indexing.py", 1190, is_own=False)
_XS = Frame("BlockManager.fast_xs", "pandas/core/internals/managers.py", 1166, is_own=False)


def slow() -> StackProfile:
    """A training whose main thread waits for two thirds of its time."""
    main: dict[Stack, int] = {
        (_MAIN, _TRAIN, _NEXT, _WAIT): 132,
        (_MAIN, _TRAIN, _STEP): 28,
        (_MAIN, _TRAIN, _STEP, _BACK): 40,
    }
    workers: dict[Stack, int] = {
        (_LOOP, _FETCH, _ITEM): 60,
        (_LOOP, _FETCH, _ITEM, _ILOC): 90,
        (_LOOP, _FETCH, _ITEM, _ILOC, _XS): 210,
        (_LOOP,): 40,
    }
    return StackProfile(10.0, 0.35, group_of(main, main), group_of(workers, workers))


def fast() -> StackProfile:
    """The same after the change."""
    main: dict[Stack, int] = {
        (_MAIN, _TRAIN, _NEXT, _WAIT): 12,
        (_MAIN, _TRAIN, _STEP): 78,
        (_MAIN, _TRAIN, _STEP, _BACK): 110,
    }
    workers: dict[Stack, int] = {(_LOOP, _FETCH, _ITEM): 100, (_LOOP,): 300}
    return StackProfile(10.0, 0.3, group_of(main, main), group_of(workers, workers))


def tell(
    connection: Connection, job_id: str, attempt_id: int, profile: StackProfile, until: datetime, windows: int = 1
) -> None:
    new = [
        NewProfileWindow(
            job_id,
            attempt_id,
            ProfileWindow(1, number, until - (windows - number) * timedelta(minutes=5), profile),
        )
        for number in range(1, windows + 1)
    ]
    profile_rows.add(connection, new)
