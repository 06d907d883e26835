"""The audit log: records, the tree over them, its checkpoints.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _records()
    _tree()


def _records() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "audit_record",
        sa.Column("id", identity, sa.Identity(cache=1), primary_key=True),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("call", sa.Text),
        sa.Column("server", sa.Text),
        sa.Column("tool", sa.Text),
        sa.Column("verdict", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("seal", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_record_call", "audit_record", ["call"])
    op.create_table(
        "audit_leaf",
        sa.Column("leaf", identity, primary_key=True, autoincrement=False),
        sa.Column("record", sa.BigInteger, nullable=False),
    )


def _tree() -> None:
    op.create_table(
        "audit_tile",
        sa.Column("level", sa.SmallInteger, nullable=False),
        sa.Column("tile", sa.BigInteger, nullable=False),
        sa.Column("hashes", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("level", "tile"),
    )
    op.create_table(
        "audit_tree",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("record", sa.BigInteger, nullable=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_table(
        "audit_checkpoint",
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("size", "at"),
    )
