"""Writes what agents report to the rows of their attempts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, null, update

from costguard.db.tables import attempts
from costguard.db.types import storable
from costguard.jobs.rows import agent_fields
from costguard.jobs.rows.attempts import ENDED_ROUND, EXIT, METRIC
from costguard.model.attempt import AgentState, AttemptState


class AgentChange(NamedTuple):
    """The change by an agent's report; None: not known. `state` is the attempt's new one, if any."""

    attempt_id: int
    before: AgentState | None
    agent: AgentState
    state: AttemptState | None = None


def hear(connection: Connection, attempt_id: int, agent: AgentState, state: AttemptState | None = None) -> None:
    """Record what an agent reported: see `hear_all`."""
    hear_all(connection, [AgentChange(attempt_id, None, agent, state)])


def hear_all(connection: Connection, changes: Iterable[AgentChange]) -> None:
    """Record what agents reported. Only what differs is written, so that heartbeats of many are one statement.

    Without an output, transfers, or figures of the machine, those that are stored stay.
    """
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in changes:
        values = _values_of(one)
        alike.setdefault(tuple(values), []).append(values)
    for names, some in alike.items():
        connection.execute(_HEAR_NO_EXIT if _NO_EXIT in names else _HEAR, some)


def _values_of(change: AgentChange) -> dict[str, Any]:
    before, agent = change.before, change.agent
    values: dict[str, Any] = {"attempt_id": change.attempt_id, "heard_at": agent.at}

    def differs(name: str) -> bool:
        return before is None or getattr(agent, name) != getattr(before, name)

    values |= {name: getattr(agent, name) for name in _AS_THEY_ARE if differs(name)}
    if differs("phase"):
        values["phase"] = storable(agent.phase)
    if differs("setup"):
        values["setup_s"] = None if agent.setup is None else round(agent.setup / timedelta(seconds=1))
    if differs("hang"):
        values["hang"] = storable(agent_fields.hang_column(agent.hang))
    if differs("exit"):
        values |= (
            {_NO_EXIT: None} if agent.exit is None else {"exit": storable(EXIT.dump_python(agent.exit, mode="json"))}
        )
    if differs("ended_round"):
        ended = agent.ended_round
        values["ended_round"] = None if ended is None else storable(ENDED_ROUND.dump_python(ended, mode="json"))
    if differs("internal_address"):
        values["internal_address"] = storable(agent.internal_address)
    if agent.metric is not None and differs("metric"):
        values["metric"] = storable(METRIC.dump_python(agent.metric, mode="json"))
    if agent.progress is not None and differs("progress"):
        values["progress"] = storable(agent_fields.progress_column(agent.progress))
    if agent.transfers and differs("transfers"):
        values["transfers"] = storable(agent_fields.transfers_column(agent.transfers))
    given = {"state": change.state, "output": agent.output, "machine": agent.machine}
    return values | {name: storable(value) for name, value in given.items() if value}


_HEAR = update(attempts).where(attempts.c.id == bindparam("attempt_id"))
_HEAR_NO_EXIT = _HEAR.values(exit=null())
_NO_EXIT = "no_exit"
_AS_THEY_ARE = (
    *("run", "booted_at", "started_at", "noticed_at", "maintenance_at", "step", "step_at", "image_digest"),
    *("accepted_through", "ready_round"),
)
