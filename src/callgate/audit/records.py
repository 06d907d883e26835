"""What the log holds: one decision and one outcome for each call, and what operators did. JSON, version 1."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

DECISION: Final = 1
OUTCOME: Final = 2
ADMIN: Final = 3


class AuditRow(NamedTuple):
    """A sealed record; every field but `body` and `seal` repeats the body, for filtering only."""

    kind: int
    at: int
    call: str | None
    server: str | None
    tool: str | None
    verdict: str | None
    reason: str | None
    body: bytes
    seal: bytes


COLUMNS: Final = AuditRow._fields


VERSION: Final = 1
# The filter columns repeat the record; a long name is found by its beginning.
COLUMN_CHARS: Final = 256


def _version() -> int:
    return VERSION


class Arguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """The call's arguments as stored: whole, redacted by rule, or only as a salted hash."""

    mode: Literal["whole", "redacted", "hashed"]
    value: Any = None
    hash: str | None = None
    salt: str | None = None


class CheckNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check said."""

    name: str
    verdict: str
    reason: str | None = None
    note: str | None = None


class Repeated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record that stands for several refusals of one caller: how many, the first and the last, some of the tools."""

    count: int
    first: int
    last: int
    tools: tuple[str, ...] = ()


class DecisionRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="decision", tag_field="kind"):
    """What the gate decided, written before the call leaves."""

    v: int = msgspec.field(default_factory=_version)
    call: str
    at: int
    gateway: str
    server: str
    session: str | None = None
    transport: str
    protocol: str | None = None
    caller: dict[str, Any] | None = None
    tool: str
    arguments: Arguments
    args_hash: str | None = None
    verdict: Literal["allow", "refuse"]
    reason: str | None = None
    detail: str | None = None
    checks: tuple[CheckNote, ...] = ()
    extra: dict[str, Any] | None = None
    repeated: Repeated | None = None

    @property
    def calls(self) -> int:
        """How many calls the record stands for."""
        return 1 if self.repeated is None else self.repeated.count

    @property
    def unproven(self) -> bool:
        """Whether it was refused because nobody knows who called."""
        return self.caller is not None and "proof" in self.caller


class OutcomeRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="outcome", tag_field="kind"):
    """What became of a call that was let through."""

    v: int = msgspec.field(default_factory=_version)
    call: str
    at: int
    outcome: str
    code: int | None = None
    bytes: int | None = None
    result_hash: str | None = None
    ms: float | None = None
    extra: dict[str, Any] | None = None


class AdminRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="admin", tag_field="kind"):
    """What an operator, or the gateway on its own, did to the store."""

    v: int = msgspec.field(default_factory=_version)
    at: int
    action: str
    by: str
    detail: dict[str, Any] | None = None


Record: TypeAlias = DecisionRecord | OutcomeRecord | AdminRecord

encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


def decode(body: bytes) -> Record:
    """The record in a stored body; raises `msgspec.MsgspecError` if it is none that this version writes."""
    record = _decoder.decode(body)
    if record.v != VERSION:
        raise msgspec.ValidationError(f"record version {record.v}, this Callgate knows {VERSION}")
    return record


def row(record: Record, body: bytes, seal: bytes) -> AuditRow:
    """The row that stores a record: its body, its seal, and the filter columns."""
    if isinstance(record, DecisionRecord):
        call, server, tool, reason = record.call, record.server, record.tool, record.reason
        if "\0" in f"{call}{server}{tool}{reason}" or max(len(call), len(server), len(tool)) > COLUMN_CHARS:
            call, server, tool = _column(call), _column(server), _column(tool)
            reason = _column(reason) if reason else None
        return AuditRow(DECISION, record.at, call, server, tool, record.verdict, reason or None, body, seal)
    if isinstance(record, OutcomeRecord):
        call = record.call if len(record.call) <= COLUMN_CHARS and "\0" not in record.call else _column(record.call)
        return AuditRow(OUTCOME, record.at, call, None, None, None, _column(record.outcome), body, seal)
    return AuditRow(ADMIN, record.at, None, None, None, None, _column(record.action), body, seal)


def _column(value: str) -> str:
    # PostgreSQL has no NUL in text, and a name chosen by a caller must not make a row unwritable.
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    return value if len(value) <= COLUMN_CHARS else value[:COLUMN_CHARS]
