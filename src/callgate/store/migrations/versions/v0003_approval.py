"""Verified approval: people, their passkeys, challenges, requests for approval, console sessions.

Revision ID: 0003
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("person", *columns("name text key, display_name text, handle blob, created_at int"))
    op.create_table(
        "passkey",
        *columns(
            "id text key, person text, handle blob, public_key blob, counter int, transports text, name text, "
            "aaguid text, attestation text, backup_eligible bool, backed_up bool, created_at int, "
            "last_used_at int?, revoked_at int?"
        ),
    )
    op.create_index("passkey_person", "passkey", ["person"])
    op.create_table(
        "ticket",
        *columns(
            "hash blob key, person text, purpose text, issued_by text, created_at int, expires_at int, used_at int?"
        ),
    )
    op.create_table("recovery_code", *columns("person text key, hash blob key"))
    op.create_table(
        "registration",
        *columns("challenge blob key, person text, ticketed bool, created_at int, expires_at int, used_at int?"),
    )
    op.create_index("registration_person", "registration", ["person"])
    op.create_index("registration_expires_at", "registration", ["expires_at"])
    op.create_table(
        "challenge",
        *columns("seq serial key, id text, person text, expires_at int, consumed_at int?, body blob"),
        sqlite_autoincrement=True,
    )
    op.create_index("challenge_id", "challenge", ["id"], unique=True)
    op.create_index("challenge_person", "challenge", ["person", "expires_at"])
    op.create_index("challenge_expires_at", "challenge", ["expires_at"])
    op.create_table(
        "approval_request",
        *columns(
            "id text key, person text, call_key blob, state text, created_at int, expires_at int, call text?, "
            "decision blob?, body blob"
        ),
    )
    op.create_index("approval_request_call_key", "approval_request", ["call_key"])
    op.create_index("approval_request_person", "approval_request", ["person", "created_at"])
    op.create_index("approval_request_created_at", "approval_request", ["created_at"])
    op.create_index("approval_request_expires_at", "approval_request", ["expires_at"])
    op.create_table(
        "console_session",
        *columns("id blob key, person text, credential text, csrf text, created_at int, expires_at int"),
    )
