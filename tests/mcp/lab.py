"""An API with people and tokens over a ledger that a test fills."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI
from sqlalchemy import Connection, func, insert, select
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.authenticators import authenticator_of, make_principal

from costguard.access.authentication import Authenticator
from costguard.access.rules import Access
from costguard.access.tokens import NewToken, TokenService
from costguard.api.app import create_app
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.jobs.submit.submit import JobService
from costguard.model.access import Role

ADA, VIC = "ada@lab.example", "vic@lab.example"


@dataclass(frozen=True)
class Lab:
    app: FastAPI
    authenticator: Authenticator
    tokens: TokenService
    database: Database

    def token(self, role: Role, address: str) -> str:
        _, secret = self.tokens.make(NewToken(role.value, owner=address, role=role), make_principal(), grants=True)
        assert secret is not None
        return secret

    def requests(self) -> int:
        """Counts the stored requests, whatever became of them."""
        with self.database.read() as connection:
            return connection.execute(select(func.count()).select_from(tables.requests)).scalar_one()


def make_lab(database: Database, jobs: JobService | None = None) -> Lab:
    """Makes a lab. Without `jobs` it launches and quotes none."""
    plain = deps_of(database)
    access = Access(viewers=frozenset({VIC}), operators=frozenset({ADA}))
    authenticator = authenticator_of(database, plain.clock, access, "the master's token")
    ids = iter(range(1000))
    deps = replace(plain, jobs=jobs, authenticator=authenticator, rules=replace(plain.rules, access=access))
    tokens = TokenService(database, plain.clock, lambda: f"{next(ids):010x}")
    return Lab(create_app(deps), authenticator, tokens, database)


def request_row(connection: Connection, instance_id: int, **given: Any) -> None:
    """Ada's request to keep the VM, made in the command line and open unless something else is given."""
    row = {
        "key": f"request-{instance_id}",
        "kind": "keep",
        "subject": f"run:{instance_id}:{instance_id}",
        "instance_id": instance_id,
        "by": ADA,
        "user_id": "",
        "via": "cli",
        "at": NOW,
        "reason": "it trains",
        **given,
    }
    connection.execute(insert(tables.requests).values(row))
