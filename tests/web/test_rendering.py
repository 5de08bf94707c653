"""Requests take turns where only a few may go at a time."""

from __future__ import annotations

import asyncio

import pytest
from tests.loops import run

from costguard.web.rendering import FairQueue, QueueFull

_LONG = 600.0


class RenderingTurns:
    """Takes turns in a lane; each goes on until it is let go."""

    def __init__(self, at_once: int = 1, patience: float = _LONG, most: int = 100, most_each: int = 50) -> None:
        self.lane = FairQueue(at_once, patience, most, most_each)
        self.order: list[str] = []
        self._going: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, who: str | None = None) -> asyncio.Task[None]:
        """`name` comes and waits; `who` it is, by default someone of this name."""
        self._going[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._turn(name, who or name))
        await asyncio.sleep(0)
        return self._tasks[name]

    async def go(self, name: str) -> None:
        self._going[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def _turn(self, name: str, who: str) -> None:
        async with self.lane.turn(who):
            self.order.append(name)
            await self._going[name].wait()


def test_no_more_than_the_lane_holds() -> None:
    """Two at a time; a third begins when one of them ends."""

    async def story() -> None:
        ground = RenderingTurns(at_once=2)
        for name in "abc":
            await ground.come(name)
        assert ground.order == ["a", "b"]
        await ground.go("a")
        assert ground.order == ["a", "b", "c"]

    run(story())


def test_people_take_turns() -> None:
    """A caller with a hundred requests waits behind a caller with one."""

    async def story() -> None:
        ground = RenderingTurns()
        await ground.come("first")
        for number in range(3):
            await ground.come(f"ada {number}", "ada")
        await ground.come("bob")
        for name in ("first", "ada 0", "bob", "ada 1"):
            await ground.go(name)
        assert ground.order == ["first", "ada 0", "bob", "ada 1", "ada 2"]

    run(story())


def test_nothing_is_kept_of_who_was_refused() -> None:
    """A stranger who comes while the line is full leaves nothing in memory."""

    async def story() -> None:
        ground = RenderingTurns(most=1)
        await ground.come("a")
        await ground.come("b")
        for number in range(5):
            refused = await ground.come(f"stranger {number}")
            with pytest.raises(QueueFull):
                await refused
        assert set(ground.lane._people) == {"a", "b"}
        for name in "ab":
            await ground.go(name)
        assert not ground.lane._people

    run(story())


def test_nobody_waits_for_ever() -> None:
    """After the patience of the lane it is crowded, and the place in it is free again."""

    async def story() -> None:
        ground = RenderingTurns(patience=0.01)
        await ground.come("a")
        late = await ground.come("b")
        with pytest.raises(QueueFull):
            await late
        assert ground.lane.waiting == 0
        await ground.go("a")
        await ground.come("c")
        assert ground.order == ["a", "c"]

    run(story())


def test_the_lane_is_bounded() -> None:
    """A person may have so many waiting, all together so many: more are turned away at once."""

    async def story() -> None:
        ground = RenderingTurns(most=3, most_each=2)
        await ground.come("first")
        for number in range(2):
            await ground.come(f"ada {number}", "ada")
        with pytest.raises(QueueFull):
            await (await ground.come("ada 2", "ada"))
        await ground.come("bob")
        with pytest.raises(QueueFull):
            await (await ground.come("cleo"))

    run(story())


@pytest.mark.parametrize("who", ["waits", "goes"])
def test_who_leaves_gives_up_the_turn(who: str) -> None:
    """The next one is not lost whether a client leaves before its turn or in it."""

    async def story() -> None:
        ground = RenderingTurns()
        first = await ground.come("a")
        second = await ground.come("b")
        await ground.come("c")
        (first if who == "goes" else second).cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if who == "waits":
            await ground.go("a")
            assert ground.order == ["a", "c"]
        else:
            await ground.go("b")
            assert ground.order == ["a", "b", "c"]

    run(story())
