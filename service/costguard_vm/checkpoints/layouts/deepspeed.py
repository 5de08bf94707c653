"""DeepSpeed: a folder a tag, a file a rank, and `latest`, which names the tag and is written last.

`latest` is not written in one piece. So it is a hint: another tag counts where it holds the same files as the one that
`latest` names, and where it names none, the same as all others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from costguard_vm.checkpoints.layouts.base import (
    MOST_RANKS,
    CandidateCheckpoint,
    Files,
    Problems,
    RangeReader,
    Tree,
    absent,
    gaps,
    last_number,
    missing,
    text_of,
)
from costguard_vm.checkpoints.layouts.formats import problems_of
from costguard_vm.checkpoints.layouts.pickles import number_inside
from costguard_vm.model.checkpoint import Framework

_FILE = re.compile(
    r"(?P<kind>[^/]*?)(?:zero_pp_rank_(?P<data>[0-9]{1,7})_)?mp_rank_(?P<model>[0-9]{1,7})_(?P<what>model|optim)_states\.pt"
)
_OTHER = re.compile(
    r"(layer_[0-9]+-model_[0-9]+-model_states|[^/]*expert_[0-9]+_mp_rank_[0-9]+_(model|optim)_states)\.pt"
)


def find_deepspeed(tree: Tree) -> Iterable[CandidateCheckpoint]:
    tags = {name: files for name, files in tree.folders.items() if any(_FILE.fullmatch(inner) for inner in files)}
    if not tags:
        return
    latest = text_of(tree.files.get("latest"), tree.reader)
    for name, files in tags.items():
        lacking = missing_ranks(files)
        others = [held for tag, held in tags.items() if tag != name]
        enough = [tags[latest]] if latest in tags else others if "latest" in tree.files else []
        if name != latest and not (enough and set(files) >= set().union(*enough)):
            hint = f"names {latest[:80]}" if latest else "is empty" if "latest" in tree.files else "is missing"
            lacking.append(f"latest {hint}, and not all files are there that others hold: ranks may not have saved.")
        check = partial(problems_inside, files)
        yield CandidateCheckpoint(Framework.DEEPSPEED, name, name, last_number(name), files, lacking, check)


def problems_inside(files: Files, reader: RangeReader) -> Problems:
    """Files that are not whole, and those of the last data ranks, which the model's states count.

    `latest` does not tell that they are there: rank 0 writes it before it waits for the others
    (deepspeed/runtime/engine.py, `save_checkpoint`), and so it may name a tag that they never finished.
    """
    whole = [file for inner, file in files.items() if _FILE.fullmatch(inner) or _OTHER.fullmatch(inner)]
    model = min((name for name in files if name.endswith("mp_rank_00_model_states.pt")), default="")
    count = number_inside(files[model], reader, "dp_world_size") if model else None
    return [*problems_of(whole, reader), *(_beyond(files, count) if count is not None else [])]


def _beyond(files: Files, count: int) -> Problems:
    """The files of data ranks up to `count` that are missing, where there is any of a data rank."""
    held = {(match["kind"], match["model"], match["what"]) for match in _of_data_ranks(files)}
    names = [
        f"{kind}zero_pp_rank_{rank}_mp_rank_{model}_{what}_states.pt"
        for kind, model, what in sorted(held)
        for rank in range(min(count, MOST_RANKS))
    ]
    return missing({**files}, *(name for name in names if name not in files))


def _of_data_ranks(files: Files) -> list[re.Match[str]]:
    return [match for name in files if (match := _FILE.fullmatch(name)) and match["data"]]


def missing_ranks(files: Files) -> Problems:
    """Ranks that lack within what is there: that the last of them lack, names alone cannot show."""
    data: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    model: dict[tuple[str, str], set[int]] = defaultdict(set)
    most: dict[str, int] = defaultdict(int)
    for name in files:
        if match := _FILE.fullmatch(name):
            model[match["kind"], match["what"]].add(int(match["model"]))
            if match["data"]:
                data[match["kind"], match["model"], match["what"]].add(int(match["data"]))
                most[match["what"]] = max(most[match["what"]], int(match["data"]))
    lacking = [] if any(what == "model" for _, what in model) else ["No model states are there."]
    for (kind, rank, what), ranks in sorted(data.items()):
        lost = absent(ranks, min(most[what], MOST_RANKS), 3)
        lacking += missing({}, *(f"{kind}zero_pp_rank_{number}_mp_rank_{rank}_{what}_states.pt" for number in lost))
    last = max((max(held) for held in model.values()), default=0)
    for (kind, what), held in sorted(model.items()):
        absent_ranks = [*gaps([*held, last])[:3], *([last] if last not in held else [])]
        lacking += missing({}, *(f"{kind}mp_rank_{rank:02d}_{what}_states.pt" for rank in absent_ranks))
    return [*lacking, *missing(files, *(name for name in files if _FILE.fullmatch(name)))][:5]
