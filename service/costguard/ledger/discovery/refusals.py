"""Notes once that a project refuses to be read, and once that it answers again."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from sqlalchemy import Connection

from costguard.ledger.discovery import rows
from costguard.ledger.discovery.rules import refusal_of
from costguard.model.observation import Observation, Unread

log = structlog.get_logger(__name__)


def note(connection: Connection, looked: Observation, before: Sequence[Unread]) -> None:
    """Notes what a look says of refusals, where it differs from the look `before`.

    A look that failed for a reason of the moment says nothing: what refused before it is taken to refuse still.
    """
    refusal, was = refusal_of(looked.unread), refusal_of(before)
    if refusal is not None:
        is_same = was is not None and was.code == refusal.code
        if not is_same and rows.note_refusal(connection, looked.project, refusal, looked.read_at):
            log.warning("project_refuses", project=looked.project, code=refusal.code, why=refusal.reason)
    elif (
        any(part.is_whole for part in before)
        and not any(part.is_whole for part in looked.unread)
        and rows.note_answer(connection, looked.project)
    ):
        log.info("project_answers", project=looked.project)
