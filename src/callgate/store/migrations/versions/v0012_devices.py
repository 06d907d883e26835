"""Devices that answer for people, beside their passkeys.

Revision ID: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was there before are passkeys.
    op.add_column("passkey", sa.Column("method", sa.Text, nullable=False, server_default="webauthn"))
    op.add_column("passkey", sa.Column("voucher", sa.Text))
