"""Switches that every gateway on the store obeys.

Revision ID: 0001
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("control", *columns("name text key, value text, changed_at int, changed_by text, note text"))
