"""The tables of agents, and what all tables hang on."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata: Final = MetaData()

# Agents. A nonce and whose it is are one digest, so that rows are small whatever was sent; it is there up to and
# including `expires_at`.
agent_nonce: Final = Table(
    "agent_nonce",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Index("agent_nonce_expires_at", "expires_at"),
    sqlite_with_rowid=False,
)

# Token buckets. No index has `full_at`, which every call changes: the rows are few enough to look through.
agent_budget: Final = Table(
    "agent_budget",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("full_at", Double, nullable=False),
    sqlite_with_rowid=False,
)

# Of API keys only the digest is kept. Names may be anything: they are in `body` (msgpack).
agent_key: Final = Table(
    "agent_key",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("body", LargeBinary, nullable=False),
)

# `key` is a hash of directory and thumbprint: a key counts together with where it came from.
agent_listed: Final = Table(
    "agent_listed",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

# Directories as they were fetched last; `fetched` is whether they ever were.
agent_directory: Final = Table(
    "agent_directory",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("fetched", Boolean, nullable=False),
    Column("tried_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# `version` grows with every change of the three above but fetches; `flushed` is its value at the latest flush: one row.
agent_head: Final = Table(
    "agent_head",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("flushed", BigInteger, nullable=False),
)
