"""Agents: nonces, budgets, API keys, agents that were listed, directories as they were fetched.

Revision ID: 0006
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("agent_nonce", *columns("digest blob key, expires_at int"), sqlite_with_rowid=False)
    op.create_index("agent_nonce_expires_at", "agent_nonce", ["expires_at"])
    op.create_table("agent_budget", *columns("key blob key, full_at real"), sqlite_with_rowid=False)
    op.create_table("agent_key", *columns("id text key, created_at int, revoked_at int?, body blob"))
    op.create_table("agent_listed", *columns("key blob key, body blob"))
    op.create_table("agent_directory", *columns("key blob key, fetched bool, tried_at int, body blob"))
    op.create_table("agent_head", *columns("id one key, version int, flushed int"))
