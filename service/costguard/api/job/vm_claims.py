"""Hands the agent of a VM that a group made the token of its attempt, for Google's word on which VM it is."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel, Field

from costguard.api.deps import Given
from costguard.api.fields import Out
from costguard.errors import Forbidden, SignInUnavailable
from costguard.jobs.reports.vm_claims import VmClaim
from costguard.web.problems import ProblemError

router = APIRouter(prefix="/api/v1")
_MOST = 16 << 10


class VmClaimBody(BaseModel):
    job: str = Field(max_length=40)
    document: str = Field(max_length=_MOST)
    secret: str = Field(min_length=32, max_length=128)


class VmClaimResponse(Out):
    attempt: str
    token: str
    node: int
    image: str


@router.post("/vm-claims", include_in_schema=False)  # for the agent alone: see agent/PROTOCOL.md
def claim(body: VmClaimBody, deps: Given) -> VmClaimResponse:
    """Answers the agent of a VM once. Only Google's identity document of that very VM is accepted."""
    if deps.vm_claims is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, "This server does not accept agents.", "Set [jobs] guard_url, and restart the server."
        )
    try:
        answer = deps.vm_claims.answer(VmClaim(body.job, body.document, body.secret))
    except SignInUnavailable as error:
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.what_next) from None
    except Forbidden as error:
        advice = "Send a new document of this VM, for this guard and job."
        raise ProblemError(HTTPStatus.UNAUTHORIZED, error.message, advice) from None
    return VmClaimResponse.read(answer)
