"""The flame graph of a profile: what calls what, with the share of the looks, next to an earlier profile's. Pure.

As Brendan Gregg's flame graphs: the width is the share, the order of neighbours is by name and says nothing
(https://www.brendangregg.com/flamegraphs.html); of two profiles the second colours the first (his "differential flame
graphs"). Functions of two versions of a script are the same where name and file are: lines move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup

LEAST = 0.004  # share of the looks that is drawn
DEEPEST = 64  # rows that are drawn

_Key = tuple[str, str]


def key_of(frame: Frame) -> _Key:
    return frame.function, frame.file


@dataclass(frozen=True, slots=True)
class FlameNode:
    """A function called from those above it. `left` and `share` are of the whole drawing, from 0 to 1, `total` of all
    looks. `before` is the share that it had in the earlier profile; None: there is none to compare with. `address`
    names its path from the root.
    """

    frame: Frame
    address: str
    depth: int
    left: float
    share: float
    total: float
    before: float | None

    @property
    def change(self) -> float | None:
        """Returns by how much of all looks its share has grown; negative where it fell."""
        return None if self.before is None else self.total - self.before


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """The nodes of a drawing, from the outermost functions on. `root` is the one that it is enlarged to; `path` leads
    there.
    """

    nodes: tuple[FlameNode, ...]
    path: tuple[FlameNode, ...]
    depth: int  # rows
    hidden: int  # functions that are too narrow, or too deep

    @property
    def root(self) -> FlameNode | None:
        return self.path[-1] if self.path else None


class _Tree:
    def __init__(self, frame: Frame, address: str) -> None:
        self.frame, self.address, self.count = frame, address, 0
        self.below: dict[_Key, _Tree] = {}

    def add(self, stack: Stack, count: int) -> None:
        tree = self
        tree.count += count
        for frame in stack:
            key = key_of(frame)
            if key not in tree.below:
                tree.below[key] = _Tree(frame, address_of(tree.address, frame))
            tree = tree.below[key]
            tree.count += count


def address_of(above: str, frame: Frame) -> str:
    """Makes an address that stays when the profile grows."""
    return hashlib.sha256(f"{above}\0{frame.function}\0{frame.file}".encode("utf-8", "replace")).hexdigest()[:12]


def _tree_of(group: StackGroup) -> _Tree:
    tree = _Tree(Frame("all", "", 0, is_own=False), "")
    for stack, (count, _) in group.stacks.items():
        tree.add(stack, count)
    return tree


def draw(group: StackGroup, earlier: StackGroup | None = None, enlarged: str = "") -> FlameGraph:
    """Lays out a group's stacks, `enlarged` to the node of that address where there is one."""
    tree = _tree_of(group)
    looks = group.looks or 1
    before = _shares(earlier) if earlier is not None and earlier.looks else None
    path = _path_to(tree, enlarged) or [tree]
    shown = path[-1]
    width = (group.looks if shown is tree else shown.count) or 1
    nodes = list(_laid_out(shown, 0.0, 0, width, looks, before))
    kept = [one for one in nodes if one.share >= LEAST and one.depth < DEEPEST]
    above = [_node(one, 0, 0.0, width, looks, before) for one in path if one is not tree]
    depth = 1 + max((one.depth for one in kept), default=0)
    return FlameGraph(tuple(kept), tuple(above), depth, len(nodes) - len(kept))


def _laid_out(
    tree: _Tree, left: float, depth: int, width: int, looks: int, before: Mapping[str, float] | None
) -> Iterator[FlameNode]:
    if tree.address:
        yield _node(tree, depth, left, width, looks, before)
        depth += 1
    for key in sorted(tree.below):
        child = tree.below[key]
        yield from _laid_out(child, left, depth, width, looks, before)
        left += child.count / width


def _node(
    tree: _Tree, depth: int, left: float, width: int, looks: int, before: Mapping[str, float] | None
) -> FlameNode:
    was = None if before is None else before.get(tree.address, 0.0)
    return FlameNode(tree.frame, tree.address, depth, left, tree.count / width, tree.count / looks, was)


def _shares(group: StackGroup) -> dict[str, float]:
    shares: dict[str, float] = {}
    trees = [_tree_of(group)]
    for tree in trees:
        shares[tree.address] = tree.count / group.looks
        trees += tree.below.values()
    return shares


def _path_to(tree: _Tree, address: str) -> list[_Tree] | None:
    if address and tree.address == address:
        return [tree]
    for child in tree.below.values():
        if (path := _path_to(child, address)) is not None:
            return [tree, *path]
    return None


@dataclass(frozen=True, slots=True)
class HotFunction:
    """A function's shares of all looks: `own` where it was the innermost, `total` where it was in the stack, once for
    each stack. `before` is `own` of the earlier profile; None: there is none.
    """

    frame: Frame
    own: float
    total: float
    before: float | None


def hottest(group: StackGroup, most: int, earlier: StackGroup | None = None) -> list[HotFunction]:
    """Returns the functions with the largest shares of their own."""
    own, total, frames = _counted(group)
    was = _counted(earlier)[0] if earlier is not None and earlier.looks else None
    order = sorted(total, key=lambda key: (-own.get(key, 0), -total[key], key))[:most]
    return [
        HotFunction(
            frames[key],
            own.get(key, 0) / group.looks,
            total[key] / group.looks,
            None if was is None or earlier is None else was.get(key, 0) / earlier.looks,
        )
        for key in order
    ]


def _counted(group: StackGroup) -> tuple[dict[_Key, int], dict[_Key, int], dict[_Key, Frame]]:
    own: dict[_Key, int] = {}
    total: dict[_Key, int] = {}
    frames: dict[_Key, Frame] = {}
    for stack, (count, _) in group.stacks.items():
        keys = [key_of(frame) for frame in stack]
        frames.update(zip(keys, stack, strict=True))
        own[keys[-1]] = own.get(keys[-1], 0) + count
        for key in set(keys):
            total[key] = total.get(key, 0) + count
    return own, total, frames
