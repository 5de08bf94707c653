"""What the kinds of problems mean: where the `type` of one leads."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from costguard.api.fields import Out, Text
from costguard.api.route import Route
from costguard.model.access import Permission
from costguard.web.problems import KINDS, NOT_FOUND, RESPONSES, ProblemError
from costguard.web.who import needs

router = APIRouter(
    prefix="/problems",
    tags=["configuration"],
    responses={**RESPONSES, **NOT_FOUND},
    dependencies=[needs(Permission.READ)],
    route_class=Route,
)


class Kind(Out):
    type: str = Field(examples=["/problems/job-over"])
    meaning: str


@router.get("/{kind}", summary="What a kind of problem means", operation_id="getProblem")
def read(kind: Annotated[Text, Path(examples=["job-over"])]) -> Kind:
    """For the `type` of a problem document, where it is not about:blank."""
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ProblemError(HTTPStatus.NOT_FOUND, f"There is no kind of problem {kind!r}.", f"These there are: {known}.")
    return Kind(type=f"/problems/{kind}", meaning=KINDS[kind])
