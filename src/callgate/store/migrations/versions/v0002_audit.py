"""The audit log: records, the tree over them, its checkpoints.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_record",
        *columns(
            "id serial key, kind small, at int, call text?, server text?, tool text?, verdict text?, "
            "reason text?, body blob, seal blob"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_record_call", "audit_record", ["call"])
    op.create_table("audit_leaf", *columns("leaf id key, record int"))
    op.create_table("audit_tile", *columns("level small key, tile int key, hashes blob"))
    op.create_table("audit_tree", *columns("id one key, size int, record int, root blob, note text"))
    op.create_table("audit_checkpoint", *columns("size int key, at int key, note text"))
