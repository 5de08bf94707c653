"""The actions of a client as steps without input or output: calls and pauses, which a client carries out.

So the synchronous and the asynchronous client share everything but how they wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from costguard.errors import ServerUnreachable, Unavailable
from costguard_client import answers
from costguard_client.answers import AnswerLost
from costguard_client.api import operations
from costguard_client.calls import Answer, Call

if TYPE_CHECKING:
    from costguard_client.api.schemas import JobResponse

TRIES = 3  # of a call that is harmless to repeat
POLL_S = 5.0
_MOST_PATIENCE_S = 60.0  # for what Retry-After says
_MARK = 1000  # characters that tell where an output was left
_MOST_ROWS = 1000  # on one page
_OVER = frozenset({"succeeded", "failed", "cancelled"})

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Item:
    """A result of a flow that has many."""

    value: Any


Step = Call[Any] | Pause | Item
Flow = Generator[Step, Answer | None, Result]  # a Call is answered, or raises ServerUnreachable


def exchange(url: str, call: Call[Result]) -> Flow[Result]:
    """Makes a call, and returns its content. A lost answer and a busy server are tried again where a repeat does
    nothing twice.

    Raises CostguardError: one of the five kinds, or ServerUnreachable.
    """
    number = 0
    while True:
        number += 1
        is_last = number == TRIES
        try:
            answer = yield call
        except AnswerLost:
            if is_last or not call.is_repeatable:
                raise
            yield Pause(number)
            continue
        assert answer is not None  # only a pause and an item have none
        patience = _patience(answer, number)
        # 429: nothing was done. 503: something may have been.
        if is_last or patience is None or not (call.is_repeatable or answer.status == 429):
            result: Result = answers.content(url, call, answer)
            return result
        yield Pause(patience)


def _patience(answer: Answer, number: int) -> float | None:
    """Seconds to wait before the next try; None: another try would bring nothing else."""
    if answer.status not in {429, 503}:
        return None
    try:
        seconds = float(answer.retry_after or number)
    except ValueError:  # a date, which no Costguard server sends
        return None
    return seconds if seconds <= _MOST_PATIENCE_S else None


def last_page(url: str, call: Call[Any], items: str, limit: int) -> Flow[dict[str, Any]]:
    """The last page of a list, with the rows of as many pages as `limit` needs; 0: all rows."""
    rows: list[Any] = []
    page: Mapping[str, Any] = {}
    while not page or (page["next_cursor"] is not None and not 0 < limit <= len(rows)):
        size = min(_MOST_ROWS, limit - len(rows)) if limit else _MOST_ROWS
        parameters = {**call.parameters, "limit": size, "cursor": page.get("next_cursor")}
        page = yield from exchange(url, replace(call, parameters=parameters))
        rows += page[items]
    return {**page, items: rows}


def rows(url: str, call: Call[Any], items: str) -> Flow[None]:
    """Every row of a list, read page by page as they are needed."""
    cursor: str | None = None
    while True:
        page = yield from exchange(url, replace(call, parameters={**call.parameters, "cursor": cursor}))
        for row in page[items]:
            yield Item(row)
        cursor = page["next_cursor"]
        if cursor is None:
            return


def is_settled(detail: JobResponse) -> bool:
    """Says whether a job has ended, or a development VM can be worked on."""
    job = detail["job"]
    return job["state"] in _OVER or (job["kind"] == "dev" and job["state"] == "running" and bool(detail["ssh_command"]))


def changes(
    url: str,
    detail: JobResponse,
    look: Call[JobResponse],
    every: float = POLL_S,
    timeout: float | None = None,
    on_trouble: Callable[[ServerUnreachable], object] = lambda _: None,
) -> Flow[None]:
    """A job as it is, and again whenever its state or the reason for it changes, until it is settled.

    A server that restarts is waited for; `on_trouble` hears of it once. Raises TimeoutError.
    """
    began = time.monotonic()
    last: tuple[str, str] | None = None
    is_troubled = False
    while True:
        now = detail["job"]["state"], detail["job"]["reason"]
        if now != last:
            yield Item(detail)
            last = now
        if is_settled(detail):
            return
        if timeout is not None and time.monotonic() - began >= timeout:
            raise TimeoutError(f"Job {detail['job']['id']} is {now[0]} after {timeout:g} s: {now[1]}")
        yield Pause(every)
        try:
            detail = yield from exchange(url, look)
            is_troubled = False
        except ServerUnreachable as error:
            if not is_troubled:
                on_trouble(error)
            is_troubled = True


def output(
    url: str,
    job_id: str,
    attempt: int | None,
    every: float = POLL_S,
    on_look: Callable[[JobResponse], object] = lambda _: None,
) -> Flow[None]:
    """Yields a job's output, piece by piece, until the job has ended; with `attempt`, of this attempt alone.

    Where the output is stored it is read from there, whole and some 30 seconds behind. Elsewhere the server keeps its
    end: what was printed faster than it was read is left out. `on_look` gets the state of the job at each look.
    """
    number, begin, tail = attempt, "start", ""
    is_over = False
    while True:
        try:
            if not is_over:  # looked at before the output, so that the last piece is read after the end
                detail = yield from exchange(url, operations.get_job(job_id))
                is_over = detail["job"]["state"] in _OVER
                on_look(detail)
            latest = yield from exchange(url, operations.get_output(job_id, attempt=attempt))
            number = number or latest["attempt"]
            if latest["stored"] and number is not None:
                begin = yield from _stored(url, job_id, number, begin)
            elif number == latest["attempt"] and (piece := _new_part(tail, latest["output"])):
                yield Item(piece)
                tail = latest["output"]
            if latest["attempt"] not in (None, number):  # the next VM has begun to report
                number, begin, tail = latest["attempt"], "start", ""
                continue
        except (ServerUnreachable, Unavailable):
            yield Pause(every)
            continue
        if is_over:
            return
        yield Pause(every)


def _stored(url: str, job_id: str, number: int, begin: str) -> Flow[str]:
    """Yields what is stored of an attempt from a place on; the place where it goes on later."""
    while True:
        page = yield from exchange(url, operations.get_output(job_id, attempt=number, begin=begin))
        if page["output"]:
            yield Item(page["output"])
        begin = page["next"] or begin
        if page["is_end"]:
            return begin


def _new_part(before: str, after: str) -> str:
    """Returns the part of `after` that `before` did not show; both are ends of one growing text."""
    if not before or after.startswith(before):
        return after[len(before) :]
    mark = before[-_MARK:]
    place = after.rfind(mark)
    return after if place < 0 else after[place + len(mark) :]
