"""Agents: nonces, budgets, API keys, agents that were listed, directories as they were fetched.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _counted()
    _listed()
    _directories()


def _counted() -> None:
    op.create_table(
        "agent_nonce",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("agent_nonce_expires_at", "agent_nonce", ["expires_at"])
    op.create_table(
        "agent_budget",
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("full_at", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )


def _listed() -> None:
    op.create_table(
        "agent_key",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "agent_listed",
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _directories() -> None:
    op.create_table(
        "agent_directory",
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("fetched", sa.Boolean, nullable=False),
        sa.Column("tried_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "agent_head",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("flushed", sa.BigInteger, nullable=False),
    )
