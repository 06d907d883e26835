"""The one schema, for SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
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
HEAD: Final = "0008"
# Oldest first, so that an unknown version can be told from an older one.
VERSIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", HEAD)

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

# Verified approval (SEP-2672). Times are milliseconds since 1970; `person` is the name of a row of `person`.
person: Final = Table(
    "person",
    metadata,
    Column("name", Text, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("handle", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("role", Text, nullable=False),
)

# `transports` is a JSON array. A revoked passkey stays, so that it can never be enrolled again.
passkey: Final = Table(
    "passkey",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("handle", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("transports", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("aaguid", Text, nullable=False),
    Column("attestation", Text, nullable=False),
    Column("backup_eligible", Boolean, nullable=False),
    Column("backed_up", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
    Index("passkey_person", "person"),
)

ticket: Final = Table(
    "ticket",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("person", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("issued_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
)

# A used code is gone.
recovery_code: Final = Table(
    "recovery_code",
    metadata,
    Column("person", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("person", "hash"),
)

registration: Final = Table(
    "registration",
    metadata,
    Column("challenge", LargeBinary, primary_key=True),
    Column("person", Text, nullable=False),
    Column("ticketed", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Index("registration_person", "person"),
    Index("registration_expires_at", "expires_at"),
)

# `body` is the challenge as it was issued (msgpack): tool names and texts in it may hold what PostgreSQL's text does
# not take. No index has `consumed_at`, so that using a challenge up touches none. `seq` grows with every challenge.
challenge: Final = Table(
    "challenge",
    metadata,
    Column("seq", _Id, Identity(cache=1), primary_key=True),
    Column("id", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("consumed_at", BigInteger),
    Column("body", LargeBinary, nullable=False),
    Index("challenge_id", "id", unique=True),
    Index("challenge_person", "person", "expires_at"),
    Index("challenge_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)

# `call_key` is a hash of who may use the approval and for what; `body` is the request as it was opened, `decision` what
# became of it, both msgpack.
approval_request: Final = Table(
    "approval_request",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("call_key", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("call", Text),
    Column("decision", LargeBinary),
    Column("body", LargeBinary, nullable=False),
    Index("approval_request_call_key", "call_key"),
    Index("approval_request_person", "person", "created_at"),
    Index("approval_request_created_at", "created_at"),
    Index("approval_request_expires_at", "expires_at"),
)

# `id` is the hash of what the browser holds.
console_session: Final = Table(
    "console_session",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("person", Text, nullable=False),
    Column("credential", Text, nullable=False),
    Column("csrf", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

# Tool pinning. Names of tools and servers come from the wire and may be anything: `…_key` is a hash of them, and they
# themselves are in `body` (msgpack). `pin` is only added to; `mac` authenticates a row and all before it.
pin: Final = Table(
    "pin",
    metadata,
    Column("seq", _Id, primary_key=True, autoincrement=False),
    Column("server_key", LargeBinary, nullable=False),
    Column("tool_key", LargeBinary, nullable=False),
    Column("approval_hash", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("pin_tool", "server_key", "tool_key"),
)

# The end of the chain: one row.
pin_head: Final = Table(
    "pin_head",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
)

# `whole_seen` is when the whole list was met last: every tool that is not gone was on it. `list_state` is a hash of it,
# empty where a part was met since. So a list in which nothing changed needs this row and no other. `waiting` counts the
# bytes of its texts that nobody decided on.
server_seen: Final = Table(
    "server_seen",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("lineage_key", LargeBinary, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("whole_seen", BigInteger, nullable=False),
    Column("list_state", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("waiting", BigInteger, nullable=False),
)

# Which text of a tool is the newest; small rows, because every list is compared with all of its server's. `state` is a
# hash of the text's `body`, and `head` is the state, then that body without the bytes that the server sent.
tool_seen: Final = Table(
    "tool_seen",
    metadata,
    Column("server_key", LargeBinary, nullable=False),
    Column("tool_key", LargeBinary, nullable=False),
    Column("approval_hash", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("changes", BigInteger, nullable=False),
    Column("gone", Boolean, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
    PrimaryKeyConstraint("server_key", "tool_key"),
)

# The texts themselves. `changes` is the tool's count when the text last became the newest, so it orders them.
tool_text: Final = Table(
    "tool_text",
    metadata,
    Column("server_key", LargeBinary, nullable=False),
    Column("tool_key", LargeBinary, nullable=False),
    Column("approval_hash", Text, nullable=False),
    Column("changes", BigInteger, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("server_key", "tool_key", "approval_hash"),
)

# Which gateway serves which server; `place_key` stands for its name and identity, whoever serves it.
server_connected: Final = Table(
    "server_connected",
    metadata,
    Column("gateway_key", LargeBinary, nullable=False),
    Column("name_key", LargeBinary, nullable=False),
    Column("group_key", LargeBinary, nullable=False),
    Column("place_key", LargeBinary, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("gateway_key", "name_key"),
)

# Trust. Words that come from the wire are in `body` (msgpack). No index has what a step changes of its session: the
# sessions are few enough to look through. Equal versions mean that nothing was missed; of steps up to `forgot` nothing
# is remembered.
trust_session: Final = Table(
    "trust_session",
    metadata,
    Column("key", Text, primary_key=True),
    Column("opened_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("forgot", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# `memory` is what a result left, hashed; where it is empty, `expires_at` is 0. `strange` is whether a stranger may have
# written it.
trust_step: Final = Table(
    "trust_step",
    metadata,
    Column("session", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("strange", SmallInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("memory", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session", "seq"),
    Index("trust_step_expires_at", "expires_at"),
)

# Values that a person endorsed in a session, as digests.
trust_endorsed: Final = Table(
    "trust_endorsed",
    metadata,
    Column("session", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("session", "digest"),
    Index("trust_endorsed_expires_at", "expires_at"),
)

# Things on a server that hold a stranger's data, as digests; tainted for every session.
trust_object: Final = Table(
    "trust_object",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Index("trust_object_expires_at", "expires_at"),
)

# Results kept back; `sealed` is encrypted, and gone once the result is dropped.
trust_held: Final = Table(
    "trust_held",
    metadata,
    Column("handle", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Index("trust_held_state", "state", "at"),
    Index("trust_held_expires_at", "expires_at"),
)


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
