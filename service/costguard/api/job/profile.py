"""Route for the profile of a job: its hottest functions, the cures that it names, and its stacks for speedscope."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Response
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Moment, Out, Query, Text, one_of, read_from
from costguard.api.job_id import JobId
from costguard.api.route import NOT_FOUND, routes
from costguard.jobs.decide.profile.flame import hottest
from costguard.jobs.decide.profile.patterns import Pattern
from costguard.jobs.decide.profile.speedscope import speedscope
from costguard.jobs.reports.profile import JobProfileAnswer, profile_of
from costguard_vm.profile.window import StackGroup

router = routes("jobs")

_FUNCTIONS = 40  # of each group
_NONE = "none"
_SPEEDSCOPE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The profile; with `format=speedscope` a file for speedscope, whose weights are seconds.",
    }
}


class ProfileQuery(Query):
    compare: Text | None = Field(
        None,
        description="The job to compare with; `none`: none. Default: the last job before it that finished, of the same "
        "owner, project, preset and script, and has a profile.",
    )
    format: Literal["json", "speedscope"] = Field("json", description="The format of the answer.")


class HotFunctionOut(Out):
    """A function and its shares of all looks at the group, from 0 to 1."""

    function: str = read_from("frame.function", examples=["Rows.__getitem__"])
    file: str = read_from("frame.file", description="The file, in the project or its package.", examples=["data.py"])
    line: int = read_from("frame.line", description="The line where it begins; 0: not known.")
    is_own: bool = read_from("frame.is_own", description="True: it is the project's own code, and no library's.")
    own: float = Field(description="The share in which it was the innermost function.")
    total: float = Field(description="The share in which it was anywhere in the stack.")
    own_before: float | None = read_from(
        "before", description="The share of its own in the earlier job's profile; null: there is none to compare with."
    )


class ProfiledGroupOut(Out):
    """The main thread, or the loader's workers."""

    name: Annotated[str, one_of(("main", "workers"))]
    looks: int = Field(description="The number of looks at its stacks.")
    other: int = Field(description="The number of looks at stacks that are too rare to be kept.")
    functions: list[HotFunctionOut] = Field(description="The hottest functions, by their own share.")


class CureOut(Out):
    """A known pattern of slow data, and what to do about it."""

    pattern: Annotated[str, one_of(Pattern)]
    share: float = Field(description="The share of the training's time that it takes.")
    function: str = read_from("hot.function")
    file: str = read_from("hot.file")
    line: int = read_from("hot.line")
    is_in_workers: bool
    text: str


class ProfileResponse(Out):
    """The profile of a job. Stacks hold the names of functions and files, and no values."""

    as_of: Moment
    job: str = read_from("job.id")
    windows: int = read_from("profile.windows", description="The number of windows of ten seconds in it.")
    since: Moment | None = read_from("profile.since")
    until: Moment | None = read_from("profile.until")
    seconds: float = read_from("profile.stacks.seconds", description="The time in which stacks were looked at.")
    cpu_seconds: float = read_from(
        "profile.stacks.cpu_s", description="The processor time that these looks took, over all windows."
    )
    data_share: float = Field(
        description="The share of the main thread's time in which it waited for data, or prepared it."
    )
    groups: list[ProfiledGroupOut]
    cures: list[CureOut] = Field(description="The cures for known patterns that the stacks show, where data is late.")
    compared_with: str | None = Field(description="The earlier job that it is compared with; null: none has a profile.")
    why_none: str = Field(description="The reason why it holds no stacks; empty: it holds some.")


@router.get(
    "/jobs/{job_id}/profile",
    summary="Get a job's profile",
    operation_id="getProfile",
    response_model=ProfileResponse,
    responses={**NOT_FOUND, **_SPEEDSCOPE},
)
def profile(deps: Given, job_id: JobId, query: Annotated[ProfileQuery, Parameter()]) -> Any:
    """Returns the functions in which the training's main thread and its loader's workers spend their time."""
    with deps.database.read() as connection:
        answer = profile_of(connection, job_id, "" if query.compare == _NONE else query.compare)
    if query.format == "speedscope":
        document = speedscope(answer.profile.stacks, answer.job.title)
        headers = {"Content-Disposition": f'attachment; filename="{answer.job.id}.speedscope.json"'}
        return Response(json.dumps(document), media_type="application/json", headers=headers)
    return ProfileResponse.read(
        answer,
        as_of=deps.clock.now(),
        groups=_groups(answer),
        compared_with=None if answer.earlier is None else answer.earlier.id,
    )


def _groups(answer: JobProfileAnswer) -> list[ProfiledGroupOut]:
    stacks, before = answer.profile.stacks, answer.earlier_profile
    pairs: list[tuple[str, StackGroup, StackGroup | None]] = [
        ("main", stacks.main, None if before is None else before.stacks.main),
        ("workers", stacks.workers, None if before is None else before.stacks.workers),
    ]
    return [
        ProfiledGroupOut(
            name=name, looks=group.looks, other=group.other, functions=[HotFunctionOut.read(one) for one in functions]
        )
        for name, group, earlier in pairs
        if group.looks and (functions := hottest(group, _FUNCTIONS, earlier))
    ]
