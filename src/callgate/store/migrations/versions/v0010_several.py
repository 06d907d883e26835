"""Groups of people, and the signatures of calls that several of them have to approve.

Revision ID: 0010
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("membership", *columns("team text key, person text key"))
    op.create_index("membership_person", "membership", ["person"])
    op.create_table(
        "approval_signature", *columns("request text key, person text key, credential text, at int, evidence blob")
    )
    op.create_index("approval_signature_person", "approval_signature", ["person"])
    op.create_index("approval_signature_at", "approval_signature", ["at"])
