"""Trust: sessions with their steps, endorsed values, tainted objects, results kept back.

Revision ID: 0005
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trust_session",
        *columns("key text key, opened_at int, seen_at int, version int, steps int, forgot int, body blob"),
    )
    op.create_table(
        "trust_step",
        *columns("session text key, seq int key, expires_at int, strange small, body blob, memory blob"),
    )
    op.create_index("trust_step_expires_at", "trust_step", ["expires_at"])
    op.create_table("trust_endorsed", *columns("session text key, digest text key, seq int, expires_at int"))
    op.create_index("trust_endorsed_expires_at", "trust_endorsed", ["expires_at"])
    op.create_table("trust_object", *columns("digest text key, expires_at int"))
    op.create_index("trust_object_expires_at", "trust_object", ["expires_at"])
    op.create_table(
        "trust_held",
        *columns("handle text key, session text, state text, at int, expires_at int, body blob, sealed blob"),
    )
    op.create_index("trust_held_state", "trust_held", ["state", "at"])
    op.create_index("trust_held_expires_at", "trust_held", ["expires_at"])
