"""Compares what the product's judge says of what killed gangs left with what their frameworks made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trainers.gangs.client import Shape
from tests.trainers.gangs.kills import GangKind

from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.gang import NodePart, judge_gang
from costguard_vm.model.checkpoint import LookFor
from costguard_vm.model.gang import GangLook, GangShape, GangState


@dataclass
class GangTally:
    """The results of the kills of one kind. `wrong` says what was chosen, and what should have been.

    `torn`: newer steps were begun that do not load, and were passed over. `early`: a newer step loads that not every
    rank had reported as saved, and that the judge did not count; nothing shows yet that it is whole.
    """

    kind: GangKind
    kills: int = 0
    right: int = 0
    nothing: int = 0
    torn: int = 0
    early: int = 0
    named: int = 0
    wrong: list[str] = field(default_factory=list)


def tally(kind: GangKind, folder: Path) -> GangTally:
    """Judges every run of this kind that lies in the folder."""
    made = GangTally(kind)
    for number in range(kind.kills):
        home = folder / f"{kind.name}-{number}"
        if (home / "truth.json").exists():
            _add(made, home, json.loads((home / "truth.json").read_text()))
    return made


def looked(home: Path, shape: Shape) -> GangLook:
    """The judge's look at the folders of all nodes, as a guard has it that knows the gang's shape."""
    folders = dict.fromkeys(shape.folders(home))
    # One location on all nodes, so that the steps are of one run.
    parts = [
        NodePart(node, (held := Folder(str(path), "/runs/gang")).listing(), held) for node, path in enumerate(folders)
    ]
    return judge_gang(parts, GangShape(shape.nodes, shape.per_node, shape.is_shared), LookFor())


def _add(made: GangTally, home: Path, truth: dict[str, Any]) -> None:
    look = looked(home, made.kind.shape)
    saves: list[dict[str, Any]] = truth["saves"]
    newest = next((save for save in saves if save["loads"]), None)
    newer = saves[: saves.index(newest)] if newest is not None else saves
    chosen = look.resume.checkpoint.name if look.resume is not None else None
    made.kills += 1
    made.torn += bool(newer)
    made.nothing += chosen is None
    made.named += any(one.missing for one in look.checkpoints)
    wrong = list(_wrong(look, saves, newest, chosen))
    made.early += not wrong and newest is not None and chosen != newest["name"]
    made.right += not wrong
    made.wrong += [f"{home.name}: {line}" for line in wrong]


def _wrong(
    look: GangLook, saves: list[dict[str, Any]], newest: dict[str, Any] | None, chosen: str | None
) -> Iterator[str]:
    """A step that is called complete and does not load, or a newer one that loads and was saved by all ranks."""
    by_name = {save["name"]: save for save in saves}
    for one in look.checkpoints:
        save = by_name.get(one.checkpoint.name)
        if one.state is GangState.COMPLETE and (save is None or save["loads"] is False):
            yield f"{one.checkpoint.name} is called complete, and does not load"
    passed = saves if chosen is None else saves[: [save["name"] for save in saves].index(chosen)]
    for save in passed:
        if save["loads"] and save["is_done"]:
            reasons = [" ".join(one.reasons) for one in look.checkpoints if one.checkpoint.name == save["name"]]
            yield f"{save['name']} loads and was saved by all ranks, and is passed over: {reasons}"
    if not look.is_settled:
        yield "something is unknown, though every node was looked at"
