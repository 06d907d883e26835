"""How much of what was met waits for a decision, and tools without their texts for whoever only counts them.

Revision ID: 0008
"""

from __future__ import annotations

import json

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_WAITING = """
    UPDATE server_seen SET waiting = (
        SELECT COALESCE(SUM(LENGTH(t.body)), 0) FROM tool_text t
        WHERE t.server_key = server_seen.key AND NOT EXISTS (
            SELECT 1 FROM pin p
            WHERE p.server_key = t.server_key AND p.tool_key = t.tool_key AND p.approval_hash = t.approval_hash
        )
    )
"""
_NEWEST = """
    SELECT s.tool_key, s.state, t.body FROM tool_seen s JOIN tool_text t
    ON t.server_key = s.server_key AND t.tool_key = s.tool_key AND t.approval_hash = s.approval_hash
    WHERE s.server_key = :server
"""
_HEAD = "UPDATE tool_seen SET head = :head WHERE server_key = :server AND tool_key = :tool"


def upgrade() -> None:
    conn = op.get_bind()
    empty = sa.text("x''" if conn.dialect.name == "sqlite" else "''::bytea")
    op.add_column("server_seen", sa.Column("waiting", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("tool_seen", sa.Column("head", sa.LargeBinary, nullable=False, server_default=empty))
    conn.execute(sa.text(_WAITING))
    # One server at a time: all texts together may not fit into memory.
    for server in conn.execute(sa.text("SELECT DISTINCT server_key FROM tool_seen")).scalars().all():
        rows = conn.execute(sa.text(_NEWEST), {"server": server}).all()
        # Under the row's state: a gateway of an earlier version may run on, which moves the one and not the other.
        heads = [
            {"server": server, "tool": tool, "head": bytes(state) + _without_text(bytes(body))}
            for tool, state, body in rows
        ]
        if heads:
            conn.execute(sa.text(_HEAD), heads)


def _without_text(body: bytes) -> bytes:
    if body[:1] == b"{":
        return json.dumps({**json.loads(body), "raw": ""}).encode()
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(body), "raw": b""})
