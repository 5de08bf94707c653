"""What an upgrade makes of sessions, tokens and requests from before they kept digests and authorities."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import text
from tests.api import rows

from costguard.access import requests, token_rows
from costguard.db import migrate
from costguard.db.transaction import Database
from costguard.model.access import PERMISSIONS, Authority, Role, Via

GUEST = "guest@else.example"


def test_an_upgrade_ends_sessions_and_keeps_tokens_and_open_requests(empty_database_url: str) -> None:
    """Everybody signs in once more; what was granted on the server still is, and old tokens last as they did."""
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.write() as connection:
        instance = rows.instance(connection, "trainer")
    migrate.downgrade(empty_database_url, "0014")
    with closing(Database.open(empty_database_url)) as database, database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO sessions VALUES ('s1', 'ana@lab.example', 'link', 'admin', '', 1, 9000000000000000, NULL)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO api_tokens (id, digest, name, owner, role, is_granted, permissions, made_at, made_by) "
                "VALUES ('t1', 'd', 'old', 'ana@lab.example', 'admin', true, '[\"read\"]', 1, 'ana@lab.example')"
            )
        )
        for key, role in (("granted", "admin"), ("listed", "")):
            connection.execute(
                text(
                    'INSERT INTO requests (key, asked, subject, instance_id, "by", user_id, via, at, reason, role) '
                    "VALUES (:key, 'stop', :subject, :instance, :by, '', 'page', 1, '', :role)"
                ),
                {"key": key, "subject": f"run:{instance}:1", "instance": instance, "by": GUEST, "role": role},
            )
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM sessions")) == 0
        token = token_rows.read(connection, "t1")
        authorities = {request.key: request.authority for _, request in requests.open_requests(connection)}
    assert token is not None
    assert (token.ends_at, token.provisional_until, token.session_id) == (None, None, "")
    assert authorities == {
        "granted": Authority(GUEST, Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.LINK, is_granted=True),
        "listed": None,
    }
