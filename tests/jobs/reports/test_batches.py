"""Small writes that arrive together are handled together, and each gets its own result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.loops import run

from costguard.errors import DatabaseUnreachable, Unavailable
from costguard.jobs.reports.batches import Batches

_LIMIT_S = 30


class Store:
    """Keeps what it was given, batch by batch; the first batch waits until `go`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()

    def keep(self, numbers: Sequence[int]) -> list[int]:
        self.began.set()
        assert self.go.wait(_LIMIT_S)
        if -1 in numbers:
            raise ValueError("-1 cannot be stored")
        if -2 in numbers:
            raise DatabaseUnreachable("The database does not answer.", "Wait.")
        self.batches.append(list(numbers))
        return [10 * number for number in numbers]


def results_of(store: Store, numbers: Sequence[int], most: int = 100) -> list[object]:
    """The first number is being handled when the others arrive, in their order."""
    batches = Batches(store.keep, apart_s=0, most=most)

    async def gathered() -> list[object]:
        first = asyncio.create_task(batches.one(numbers[0], 1))
        assert await asyncio.to_thread(store.began.wait, _LIMIT_S)
        others = [asyncio.create_task(batches.one(number, 1)) for number in numbers[1:]]
        await asyncio.sleep(0)  # all of them are queued now
        store.go.set()
        return list(await asyncio.gather(first, *others, return_exceptions=True))

    results: list[object] = run(gathered())
    return results


def test_what_arrives_meanwhile_shares_the_next_batch() -> None:
    """The order is that in which it came, at most so many at once, and each caller gets its own result."""
    store = Store()
    assert results_of(store, [1, 2, 3, 4, 5], most=3) == [10, 20, 30, 40, 50]
    assert store.batches == [[1], [2, 3, 4], [5]]


def test_one_that_fails_does_not_spoil_the_others() -> None:
    """A batch that raised did nothing: each of it is handled alone, and only the one that fails gets the error."""
    store = Store()
    first, failed, last = results_of(store, [1, -1, 3])
    assert (first, last) == (10, 30)
    assert isinstance(failed, ValueError)
    assert store.batches == [[1], [3]]


def test_a_failing_database_is_asked_once_for_a_batch() -> None:
    """It would fail each of them, after the same wait."""
    store = Store()
    first, *others = results_of(store, [1, -2, 3])
    assert first == 10
    assert [type(error) for error in others] == [DatabaseUnreachable, DatabaseUnreachable]
    assert store.batches == [[1]]


def test_what_may_wait_is_bounded() -> None:
    """Callers beyond that are asked to come again, and what waited is handled all the same."""
    store = Store()
    batches = Batches(store.keep, apart_s=0)

    async def crowded() -> list[int]:
        first = asyncio.create_task(batches.one(1, 1))
        assert await asyncio.to_thread(store.began.wait, _LIMIT_S)
        waiting = asyncio.create_task(batches.one(2, 60 << 20))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too slow"):
            await batches.one(3, 5 << 20)
        store.go.set()
        return [await first, await waiting, await batches.one(4, 5 << 20)]

    assert run(crowded()) == [10, 20, 40]
    assert store.batches == [[1], [2], [4]]


def test_each_event_loop_gets_what_was_asked_in_it() -> None:
    """The loops come one after the other, and two that wait for the same batch; of a loop that ended nothing is left
    waiting.
    """
    store = Store()
    store.go.set()
    batches = Batches(store.keep, apart_s=0)
    assert [run(batches.one(number, 1)) for number in (1, 2)] == [10, 20]

    store.began.clear()
    store.go.clear()
    with ThreadPoolExecutor(3) as threads:
        given = [threads.submit(run, batches.one(3, 1))]
        assert store.began.wait(_LIMIT_S)
        given += [threads.submit(run, batches.one(number, 1)) for number in (4, 5)]
        store.go.set()
        assert [result.result(_LIMIT_S) for result in given] == [30, 40, 50]
