"""Grants that people sign beforehand for the calls of an agent, and what was used of each.

Revision ID: 0013
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "delegation",
        *columns(
            "id text key, person text, credential text, agent blob, at int, begins int, ends int, "
            "calls int, most_calls int, amount int, most_amount int?, revoked_at int?, revoked_by text?, body blob"
        ),
    )
    op.create_index("delegation_agent", "delegation", ["agent", "ends"])
    op.create_index("delegation_person", "delegation", ["person"])
