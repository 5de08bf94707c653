"""The options with which checkpoints would be recognised that no layout knows: a pattern, and where needed a marker.

Pure. Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from costguard_vm.model.checkpoint import StoredFile

# What trainers write next to checkpoints, and what savers write first and rename.
_OTHERS = re.compile(
    r"(^|/)(wandb|mlruns|__pycache__)/|(^|/)(\.|tmp[-_]|events\.out\.tfevents)|[-_.]tmp[^/]*/"
    r"|\.(log|txt|jsonl?|csv|tsv|ya?ml|md|out|err|html|png|jpe?g|gif|py|sh|toml|lock|tmp|part|incomplete)$",
    re.IGNORECASE,
)
_WEIGHTS = re.compile(
    r"\.(pt|pth|ckpt|bin|safetensors|pkl|pickle|npz|npy|h5|keras|msgpack|tar|pdparams|pdopt|params|weights|joblib|zip)"
    r"(\.(gz|zst))?$",
    re.IGNORECASE,
)
_LARGE = 1 << 20  # bytes: no note of a trainer is as large
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_STEPS = re.compile(r"(?:^|[^a-z])(?:global_?)?(?:step|iter|iteration|it|update|batch)s?[-_=.]?$")
_NO_STEPS = re.compile(r"(?:^|[^a-z])(?:acc|accuracy|loss|score|auc|f1|ppl|bleu|lr|seed|v|version|rank|fold)[-_=.]?$")


def may_be_checkpoints(files: Mapping[str, StoredFile]) -> list[str]:
    """The paths of files that look like what a trainer saves."""
    return sorted(path for path, file in files.items() if _may_be(path, file))


def _may_be(path: str, file: StoredFile) -> bool:
    return not _OTHERS.search(path) and bool(_WEIGHTS.search(path) or file.size >= _LARGE or _ends_in_number(path))


def _ends_in_number(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "." not in name and name[-1:].isdigit()


def proposed(files: Mapping[str, StoredFile], paths: Sequence[str]) -> tuple[str, str]:
    """Pattern and marker for these of the files; "" for what is not needed, and twice where no name holds a number."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        if _NUMBERS.search(path):
            groups.setdefault(_NUMBERS.sub("#", path), []).append(path)
    if not groups:
        return "", ""
    alike = max(groups.values(), key=lambda some: (len(some), sum(files[path].size for path in some)))
    cut = [_cut(path) for path in sorted(alike, key=lambda path: files[path].modified_at)]
    at = _step_at(cut)
    pattern = _pattern(cut, at)
    above = pattern.partition("{step}")[0]
    folder = "/".join(pattern.split("/")[: above.count("/") + 1])
    if folder == pattern or "{step}" in pattern[len(folder) :] or "{step}" not in pattern:
        return pattern, ""
    newest = "".join(cut[-1])
    inside = "/".join(newest.split("/")[: folder.count("/") + 1]) + "/"
    together = [path for path in files if path.startswith(inside)]
    if len(together) == 1:
        return pattern, ""
    last = max(together, key=lambda path: (files[path].modified_at, path))
    return f"{folder}/", last[len(inside) :]


def options(pattern: str, marker: str) -> str:
    """`--pattern 'step_{step}/' --marker model.pt`."""
    return f"--pattern '{pattern}'" + (f" --marker '{marker}'" if marker else "")


def _cut(path: str) -> list[str]:
    parts, end = [], 0
    for number in _NUMBERS.finditer(path):
        parts += [path[end : number.start()], number.group()]
        end = number.end()
    return [*parts, path[end:]]


def _step_at(cut: Sequence[Sequence[str]]) -> int:
    """Returns the part that is the step: a whole number, after a word for steps; else of the differing ones the one
    that grows most.
    """
    places = [place for place in range(1, len(cut[0]), 2) if all("." not in one[place] for one in cut)]
    before = {place: cut[0][place - 1].lower() for place in places}
    places = [place for place in places if not _NO_STEPS.search(before[place])] or places or [len(cut[0]) - 2]
    differ = [place for place in places if len({one[place] for one in cut}) == len(cut)] or places
    named = [place for place in differ if _STEPS.search(before.get(place, ""))]
    return max(named or differ, key=lambda place: (_growth(cut, place), place))


def _growth(cut: Sequence[Sequence[str]], place: int) -> int:
    return int(cut[-1][place].split(".")[0]) - int(cut[0][place].split(".")[0])


def _pattern(cut: Sequence[Sequence[str]], at: int) -> str:
    """Makes a pattern: equal parts are written out; of the rest, those that equal the step are one, and all others a
    star.
    """
    parts = []
    for place, text in enumerate(cut[-1]):
        if place % 2 and (place == at or all(one[place] == one[at] for one in cut)):
            parts.append("{step}")
        elif len({one[place] for one in cut}) == 1:
            parts.append(text)
        else:
            parts.append("*")
    return "".join(parts)
