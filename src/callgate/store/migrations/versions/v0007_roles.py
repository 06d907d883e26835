"""What each person may do in the console.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Whoever was there before could do everything, and goes on to.
    op.add_column("person", sa.Column("role", sa.Text, nullable=False, server_default="operator"))
