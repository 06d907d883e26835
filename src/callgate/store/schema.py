"""The one schema, for SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Any, Final

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
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

# The newest migration; a test holds it equal to the head of store/migrations.
HEAD: Final = "0013"
# Oldest first, so that an unknown version can be told from an older one.
VERSIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", HEAD)

metadata: Final = MetaData()

# SQLite knows rowids only as INTEGER; PostgreSQL needs the eight bytes.
_Id = BigInteger().with_variant(Integer(), "sqlite")
_KINDS: Final[dict[str, type[TypeEngine[Any]] | TypeEngine[Any]]] = {
    "text": Text,
    "int": BigInteger,
    "small": SmallInteger,
    "real": Double,
    "bool": Boolean,
    "blob": LargeBinary,
    "id": _Id,
}


def columns(listed: str) -> list[Column[Any]]:
    """Columns of a table: the name of each, its kind (`?` where it may be missing), and `key` where it is one.

    `serial` is a number that the database hands out, `one` the key of a table that has one row. Migrations use this
    too, so what a kind means stays as it is.
    """
    return [_column(*one.split()) for one in listed.split(",")]


def _table(name: str, listed: str, *more: Index, **options: Any) -> Table:
    return Table(name, metadata, *columns(listed), *more, **options)


def _column(name: str, kind: str, key: str = "") -> Column[Any]:
    if kind == "serial":
        return Column(name, _Id, Identity(cache=1), primary_key=True)
    if kind == "one":
        return Column(name, Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False)
    optional = kind.endswith("?")
    return Column(name, _KINDS[kind.rstrip("?")], primary_key=bool(key), nullable=optional, autoincrement=False)


control: Final = _table("control", "name text key, value text, changed_at int, changed_by text, note text")

# Ids are never used twice (AUTOINCREMENT), so that a deleted last record leaves a gap that verification sees.
audit_record: Final = _table(
    "audit_record",
    "id serial key, kind small, at int, call text?, server text?, tool text?, verdict text?, reason text?, "
    "body blob, seal blob",
    Index("audit_record_call", "call"),
    sqlite_autoincrement=True,
)

# Which record is which leaf of the tree; outlives the record when retention removes it. Both columns grow together,
# so a record's leaf is found by bisection and needs no second index.
audit_leaf: Final = _table("audit_leaf", "leaf id key, record int")

# C2SP tlog-tiles: up to 256 hashes a tile; level 0 holds leaf hashes.
audit_tile: Final = _table("audit_tile", "level small key, tile int key, hashes blob")

# The head of the tree: one row.
audit_tree: Final = _table("audit_tree", "id one key, size int, record int, root blob, note text")

# Earlier signed checkpoints, at most one a minute in ordinary running.
audit_checkpoint: Final = _table("audit_checkpoint", "size int key, at int key, note text")

# Verified approval (SEP-2672). Times are milliseconds since 1970; `person` is the name of a row of `person`.
person: Final = _table("person", "name text key, display_name text, handle blob, created_at int, role text")

# `transports` is a JSON array. A revoked passkey stays, so that it can never be enrolled again. `method` says what a
# row is: a passkey, or a device with the passkey that vouched for it in `voucher`.
passkey: Final = _table(
    "passkey",
    "id text key, person text, handle blob, public_key blob, counter int, transports text, name text, "
    "aaguid text, attestation text, backup_eligible bool, backed_up bool, created_at int, last_used_at int?, "
    "revoked_at int?, method text, voucher text?",
    Index("passkey_person", "person"),
)

# `credential` is the passkey that signed for it, where one did.
ticket: Final = _table(
    "ticket",
    "hash blob key, person text, purpose text, issued_by text, created_at int, expires_at int, used_at int?, "
    "credential text?",
)

# A used code is gone.
recovery_code: Final = _table("recovery_code", "person text key, hash blob key")

registration: Final = _table(
    "registration",
    "challenge blob key, person text, ticketed bool, created_at int, expires_at int, used_at int?, ticket blob?",
    Index("registration_person", "person"),
    Index("registration_expires_at", "expires_at"),
)

# `body` is the challenge as it was issued (msgpack): tool names and texts in it may hold what PostgreSQL's text does
# not take. No index has `consumed_at`, so that using a challenge up touches none. `seq` grows with every challenge.
challenge: Final = _table(
    "challenge",
    "seq serial key, id text, person text, expires_at int, consumed_at int?, body blob",
    Index("challenge_id", "id", unique=True),
    Index("challenge_person", "person", "expires_at"),
    Index("challenge_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)

# Which people are in which groups; a group is there while somebody is in it.
membership: Final = _table("membership", "team text key, person text key", Index("membership_person", "person"))

# The signatures of calls that several people have to approve: one of each person. `evidence` is msgpack.
approval_signature: Final = _table(
    "approval_signature",
    "request text key, person text key, credential text, at int, evidence blob",
    Index("approval_signature_person", "person"),
    Index("approval_signature_at", "at"),
)

# What people sign beforehand for the calls of an agent. `agent` is a hash of the agent, its key and the server; `calls`
# and `amount` (in millionths) are what was used; `body` is the signed terms and the evidence, msgpack.
delegation: Final = _table(
    "delegation",
    "id text key, person text, credential text, agent blob, at int, begins int, ends int, "
    "calls int, most_calls int, amount int, most_amount int?, revoked_at int?, revoked_by text?, body blob",
    Index("delegation_agent", "agent", "ends"),
    Index("delegation_person", "person"),
)

# `call_key` is a hash of who may use the approval and for what; `body` is the request as it was opened, `decision` what
# became of it, both msgpack.
approval_request: Final = _table(
    "approval_request",
    "id text key, person text, call_key blob, state text, created_at int, expires_at int, call text?, "
    "decision blob?, body blob",
    Index("approval_request_call_key", "call_key"),
    Index("approval_request_person", "person", "created_at"),
    Index("approval_request_created_at", "created_at"),
    Index("approval_request_expires_at", "expires_at"),
)

# `id` is the hash of what the browser holds.
console_session: Final = _table(
    "console_session",
    "id blob key, person text, credential text, csrf text, created_at int, expires_at int",
)

# Tool pinning. Names of tools and servers come from the wire and may be anything: `…_key` is a hash of them, and they
# themselves are in `body` (msgpack). `pin` is only added to; `mac` authenticates a row and all before it.
pin: Final = _table(
    "pin",
    "seq id key, server_key blob, tool_key blob, approval_hash text, body blob, mac blob",
    Index("pin_tool", "server_key", "tool_key"),
)

# The end of the chain: one row.
pin_head: Final = _table("pin_head", "id one key, seq int, mac blob, seal blob")

# `whole_seen` is when the whole list was met last: every tool that is not gone was on it. `list_state` is a hash of it,
# empty where a part was met since. So a list in which nothing changed needs this row and no other. `waiting` counts the
# bytes of its texts that nobody decided on.
server_seen: Final = _table(
    "server_seen",
    "key blob key, lineage_key blob, last_seen int, whole_seen int, list_state blob, body blob, waiting int",
)

# Which text of a tool is the newest; small rows, because every list is compared with all of its server's. `state` is a
# hash of the text's `body`, and `head` is the state, then that body without the bytes that the server sent.
tool_seen: Final = _table(
    "tool_seen",
    "server_key blob key, tool_key blob key, approval_hash text, state blob, changes int, gone bool, "
    "last_seen int, head blob",
)

# The texts themselves. `changes` is the tool's count when the text last became the newest, so it orders them.
tool_text: Final = _table(
    "tool_text",
    "server_key blob key, tool_key blob key, approval_hash text key, changes int, first_seen int, last_seen int, "
    "body blob",
)

# Which gateway serves which server; `place_key` stands for its name and identity, whoever serves it.
server_connected: Final = _table(
    "server_connected",
    "gateway_key blob key, name_key blob key, group_key blob, place_key blob, until int, body blob",
)

# Trust. Words that come from the wire are in `body` (msgpack). No index has what a step changes of its session: the
# sessions are few enough to look through. Equal versions mean that nothing was missed; of steps up to `forgot` nothing
# is remembered. `owner` is the gateway that has the session to itself (PostgreSQL), empty for none.
trust_session: Final = _table(
    "trust_session",
    "key text key, opened_at int, seen_at int, version int, steps int, forgot int, body blob",
)
trust_session.append_column(Column("owner", Text, nullable=False, server_default=""))

# Gateways that have sessions to themselves; each counts its `beat` up as long as it lives.
trust_owner: Final = _table("trust_owner", "owner text key, beat int")

# `memory` is what a result left, hashed; where it is empty, `expires_at` is 0. `strange` is whether a stranger may have
# written it.
trust_step: Final = _table(
    "trust_step",
    "session text key, seq int key, expires_at int, strange small, body blob, memory blob",
    Index("trust_step_expires_at", "expires_at"),
)

# Values that a person endorsed in a session, as digests.
trust_endorsed: Final = _table(
    "trust_endorsed",
    "session text key, digest text key, seq int, expires_at int",
    Index("trust_endorsed_expires_at", "expires_at"),
)

# Things on a server that hold a stranger's data, as digests; tainted for every session.
trust_object: Final = _table(
    "trust_object",
    "digest text key, expires_at int",
    Index("trust_object_expires_at", "expires_at"),
)

# Results kept back; `sealed` is encrypted, and gone once the result is dropped.
trust_held: Final = _table(
    "trust_held",
    "handle text key, session text, state text, at int, expires_at int, body blob, sealed blob",
    Index("trust_held_state", "state", "at"),
    Index("trust_held_expires_at", "expires_at"),
)


# Agents. A nonce and whose it is are one digest, so that rows are small whatever was sent; it is there up to and
# including `expires_at`.
agent_nonce: Final = _table(
    "agent_nonce",
    "digest blob key, expires_at int",
    Index("agent_nonce_expires_at", "expires_at"),
    sqlite_with_rowid=False,
)

# Token buckets. No index has `full_at`, which every call changes: the rows are few enough to look through.
agent_budget: Final = _table("agent_budget", "key blob key, full_at real", sqlite_with_rowid=False)

# Of API keys only the digest is kept. Names may be anything: they are in `body` (msgpack).
agent_key: Final = _table("agent_key", "id text key, created_at int, revoked_at int?, body blob")

# `key` is a hash of directory and thumbprint: a key counts together with where it came from.
agent_listed: Final = _table("agent_listed", "key blob key, body blob")

# Directories as they were fetched last; `fetched` is whether they ever were.
agent_directory: Final = _table("agent_directory", "key blob key, fetched bool, tried_at int, body blob")

# `version` grows with every change of the three above but fetches; `flushed` is its value at the latest flush: one row.
agent_head: Final = _table("agent_head", "id one key, version int, flushed int")
