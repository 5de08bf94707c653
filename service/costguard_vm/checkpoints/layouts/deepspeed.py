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
    Tree,
    absent,
    gaps,
    last_number,
    missing,
    text_of,
)
from costguard_vm.checkpoints.layouts.formats import problems_of
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
        whole = [file for inner, file in files.items() if _FILE.fullmatch(inner) or _OTHER.fullmatch(inner)]
        check = partial(problems_of, whole)
        yield CandidateCheckpoint(Framework.DEEPSPEED, name, name, last_number(name), files, lacking, check)


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
        lacking += [f"{kind}zero_pp_rank_{number}_mp_rank_{rank}_{what}_states.pt is missing." for number in lost]
    last = max((max(held) for held in model.values()), default=0)
    for (kind, what), held in sorted(model.items()):
        lacking += [f"{kind}mp_rank_{gap:02d}_{what}_states.pt is missing." for gap in gaps([*held, last])[:3]]
        if last not in held:
            lacking.append(f"{kind}mp_rank_{last:02d}_{what}_states.pt is missing.")
    return [*lacking, *missing(files, *(name for name in files if _FILE.fullmatch(name)))][:5]
