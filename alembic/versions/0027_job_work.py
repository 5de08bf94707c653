"""Stored jobs and members of sweeps call the time that they take their work."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename("expected", "work")


def downgrade() -> None:
    _rename("work", "expected")


def _rename(before: str, after: str) -> None:
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for table in ("jobs", "sweep_members"):
        if is_postgres:
            value = f"(spec - '{before}') || jsonb_build_object('{after}', spec -> '{before}')"
            has = f"jsonb_exists(spec, '{before}')"
        else:
            value = f"json_set(json_remove(spec, '$.{before}'), '$.{after}', json_extract(spec, '$.{before}'))"
            has = f"json_type(spec, '$.{before}') IS NOT NULL"
        op.execute(f"UPDATE {table} SET spec = {value} WHERE {has}")  # noqa: S608  all of it is from here
