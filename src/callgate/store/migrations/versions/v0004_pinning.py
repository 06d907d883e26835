"""Tool pinning: decisions, what was met of servers and tools, which servers are connected.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _decisions()
    _sightings()
    _connected()


def _decisions() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "pin",
        sa.Column("seq", identity, primary_key=True, autoincrement=False),
        sa.Column("server_key", sa.LargeBinary, nullable=False),
        sa.Column("tool_key", sa.LargeBinary, nullable=False),
        sa.Column("approval_hash", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("mac", sa.LargeBinary, nullable=False),
    )
    op.create_index("pin_tool", "pin", ["server_key", "tool_key"])
    op.create_table(
        "pin_head",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("mac", sa.LargeBinary, nullable=False),
        sa.Column("seal", sa.LargeBinary, nullable=False),
    )


def _sightings() -> None:
    op.create_table(
        "server_seen",
        sa.Column("key", sa.LargeBinary, primary_key=True),
        sa.Column("lineage_key", sa.LargeBinary, nullable=False),
        sa.Column("last_seen", sa.BigInteger, nullable=False),
        sa.Column("whole_seen", sa.BigInteger, nullable=False),
        sa.Column("list_state", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tool_seen",
        sa.Column("server_key", sa.LargeBinary, nullable=False),
        sa.Column("tool_key", sa.LargeBinary, nullable=False),
        sa.Column("approval_hash", sa.Text, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.Column("gone", sa.Boolean, nullable=False),
        sa.Column("last_seen", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("server_key", "tool_key"),
    )
    op.create_table(
        "tool_text",
        sa.Column("server_key", sa.LargeBinary, nullable=False),
        sa.Column("tool_key", sa.LargeBinary, nullable=False),
        sa.Column("approval_hash", sa.Text, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.Column("first_seen", sa.BigInteger, nullable=False),
        sa.Column("last_seen", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("server_key", "tool_key", "approval_hash"),
    )


def _connected() -> None:
    op.create_table(
        "server_connected",
        sa.Column("gateway_key", sa.LargeBinary, nullable=False),
        sa.Column("name_key", sa.LargeBinary, nullable=False),
        sa.Column("group_key", sa.LargeBinary, nullable=False),
        sa.Column("place_key", sa.LargeBinary, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("gateway_key", "name_key"),
    )
