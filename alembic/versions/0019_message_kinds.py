"""Messages: the kinds "notice" and "whisper" become "notification" and "ephemeral"."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A notification's key stays: it is in the metadata of messages whose delivery Slack may still have to confirm.
    op.execute("UPDATE messages SET kind = 'notification' WHERE kind = 'notice'")
    op.execute("UPDATE messages SET kind = 'ephemeral', key = 'ephemeral' || substr(key, 8) WHERE kind = 'whisper'")


def downgrade() -> None:
    op.execute("UPDATE messages SET kind = 'notice' WHERE kind = 'notification'")
    op.execute("UPDATE messages SET kind = 'whisper', key = 'whisper' || substr(key, 10) WHERE kind = 'ephemeral'")
