"""The one schema, for SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
)

# The newest migration; a test holds it equal to the head of store/migrations.
HEAD: Final = "0002"
# Oldest first, so that an unknown version can be told from an older one.
VERSIONS: Final = ("0001", HEAD)

metadata: Final = MetaData()

# SQLite knows rowids only as INTEGER; PostgreSQL needs the eight bytes.
_Id = BigInteger().with_variant(Integer(), "sqlite")

control: Final = Table(
    "control",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("note", Text, nullable=False),
)

# Ids are never used twice (AUTOINCREMENT), so that a deleted last record leaves a gap that verification sees.
audit_record: Final = Table(
    "audit_record",
    metadata,
    Column("id", _Id, Identity(cache=1), primary_key=True),
    Column("kind", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("call", Text),
    Column("server", Text),
    Column("tool", Text),
    Column("verdict", Text),
    Column("reason", Text),
    Column("body", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    Index("audit_record_call", "call"),
    sqlite_autoincrement=True,
)

# Which record is which leaf of the tree; outlives the record when retention removes it. Both columns grow together,
# so a record's leaf is found by bisection and needs no second index.
audit_leaf: Final = Table(
    "audit_leaf",
    metadata,
    Column("leaf", _Id, primary_key=True, autoincrement=False),
    Column("record", BigInteger, nullable=False),
)

# C2SP tlog-tiles: up to 256 hashes a tile; level 0 holds leaf hashes.
audit_tile: Final = Table(
    "audit_tile",
    metadata,
    Column("level", SmallInteger, nullable=False),
    Column("tile", BigInteger, nullable=False),
    Column("hashes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("level", "tile"),
)

# The head of the tree: one row.
audit_tree: Final = Table(
    "audit_tree",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("record", BigInteger, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("note", Text, nullable=False),
)

# Earlier signed checkpoints, at most one a minute in ordinary running.
audit_checkpoint: Final = Table(
    "audit_checkpoint",
    metadata,
    Column("size", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
    PrimaryKeyConstraint("size", "at"),
)
