"""Trust: sessions with their steps, endorsed values, tainted objects, results kept back.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _sessions()
    _objects()
    _held()


def _sessions() -> None:
    op.create_table(
        "trust_session",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("steps", sa.BigInteger, nullable=False),
        sa.Column("forgot", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "trust_step",
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("strange", sa.SmallInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("memory", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session", "seq"),
    )
    op.create_index("trust_step_expires_at", "trust_step", ["expires_at"])
    op.create_table(
        "trust_endorsed",
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session", "digest"),
    )
    op.create_index("trust_endorsed_expires_at", "trust_endorsed", ["expires_at"])


def _objects() -> None:
    op.create_table(
        "trust_object",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("trust_object_expires_at", "trust_object", ["expires_at"])


def _held() -> None:
    op.create_table(
        "trust_held",
        sa.Column("handle", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )
    op.create_index("trust_held_state", "trust_held", ["state", "at"])
    op.create_index("trust_held_expires_at", "trust_held", ["expires_at"])
