"""Verified approval: people, their passkeys, challenges, requests for approval, console sessions.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _people()
    _enrolment()
    _challenges()
    _requests()
    _sessions()


def _people() -> None:
    op.create_table(
        "person",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("handle", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "passkey",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("handle", sa.LargeBinary, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("counter", sa.BigInteger, nullable=False),
        sa.Column("transports", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("aaguid", sa.Text, nullable=False),
        sa.Column("attestation", sa.Text, nullable=False),
        sa.Column("backup_eligible", sa.Boolean, nullable=False),
        sa.Column("backed_up", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_index("passkey_person", "passkey", ["person"])


def _enrolment() -> None:
    op.create_table(
        "ticket",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("issued_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
    )
    op.create_table(
        "recovery_code",
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("person", "hash"),
    )
    op.create_table(
        "registration",
        sa.Column("challenge", sa.LargeBinary, primary_key=True),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("ticketed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
    )
    op.create_index("registration_person", "registration", ["person"])
    op.create_index("registration_expires_at", "registration", ["expires_at"])


def _challenges() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "challenge",
        sa.Column("seq", identity, sa.Identity(cache=1), primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("consumed_at", sa.BigInteger),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("challenge_id", "challenge", ["id"], unique=True)
    op.create_index("challenge_person", "challenge", ["person", "expires_at"])
    op.create_index("challenge_expires_at", "challenge", ["expires_at"])


def _requests() -> None:
    op.create_table(
        "approval_request",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("call_key", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("call", sa.Text),
        sa.Column("decision", sa.LargeBinary),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("approval_request_call_key", "approval_request", ["call_key"])
    op.create_index("approval_request_person", "approval_request", ["person", "created_at"])
    op.create_index("approval_request_created_at", "approval_request", ["created_at"])
    op.create_index("approval_request_expires_at", "approval_request", ["expires_at"])


def _sessions() -> None:
    op.create_table(
        "console_session",
        sa.Column("id", sa.LargeBinary, primary_key=True),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("credential", sa.Text, nullable=False),
        sa.Column("csrf", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
