"""Tool pinning: decisions, what was met of servers and tools, which servers are connected.

Revision ID: 0004
"""

from __future__ import annotations

from alembic import op

from callgate.store.schema import columns

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pin",
        *columns("seq id key, server_key blob, tool_key blob, approval_hash text, body blob, mac blob"),
    )
    op.create_index("pin_tool", "pin", ["server_key", "tool_key"])
    op.create_table("pin_head", *columns("id one key, seq int, mac blob, seal blob"))
    op.create_table(
        "server_seen",
        *columns("key blob key, lineage_key blob, last_seen int, whole_seen int, list_state blob, body blob"),
    )
    op.create_table(
        "tool_seen",
        *columns(
            "server_key blob key, tool_key blob key, approval_hash text, state blob, changes int, gone bool, "
            "last_seen int"
        ),
    )
    op.create_table(
        "tool_text",
        *columns(
            "server_key blob key, tool_key blob key, approval_hash text key, changes int, first_seen int, "
            "last_seen int, body blob"
        ),
    )
    op.create_table(
        "server_connected",
        *columns("gateway_key blob key, name_key blob key, group_key blob, place_key blob, until int, body blob"),
    )
