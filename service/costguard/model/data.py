"""Data of jobs: how much of it is stored somewhere, and what moving it costs."""

from __future__ import annotations

from dataclasses import dataclass

from costguard.model.money import Money

PUBLISHED = "_SUCCESS"  # in an output's folder: written last, so that its reader knows that all of it is there


@dataclass(frozen=True, slots=True)
class StoredSize:
    """What lies at an address. `is_whole` is false where counting stopped at a limit: there is at least this much.

    `region` is the bucket's, as S3 names it; "" where it is not known. `is_published`: the marker of a published
    output lies there.
    """

    bytes: int
    files: int
    is_whole: bool = True
    region: str = ""
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class DataMove:
    """One input or output before it is moved. `size` and `cost` are None where they are not known.

    `cost` is what one move of it costs, at list prices; each VM of a job moves its inputs again. `note` is a sentence
    about the cost.
    """

    where: str  # "inputs.0"
    source: str
    target: str
    size: StoredSize | None
    cost: Money | None
    note: str
