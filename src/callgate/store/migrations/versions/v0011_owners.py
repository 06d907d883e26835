"""Sessions that one gateway has to itself.

Revision ID: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from callgate.store.schema import columns

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trust_session", sa.Column("owner", sa.Text, nullable=False, server_default=""))
    op.create_table("trust_owner", *columns("owner text key, beat int"))
