"""Which passkey signed for an enrolment link, and which link an enrolment was begun with.

Revision ID: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ticket", sa.Column("credential", sa.Text))
    op.add_column("registration", sa.Column("ticket", sa.LargeBinary))
    # Nobody knows which passkey signed for what is open: it has to be signed for again.
    op.execute("DELETE FROM ticket WHERE purpose = 'device' AND used_at IS NULL")
    op.execute("DELETE FROM registration WHERE used_at IS NULL")
