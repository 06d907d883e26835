"""The store in PostgreSQL, for gateways on several machines."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from struct import Struct
from threading import Event
from typing import Any, Final

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from callgate.audit.records import COLUMNS, AuditRow
from callgate.errors import StoreError, StoreUnavailable
from callgate.store.changes import StoredSession

try:
    import psycopg
except ImportError as error:
    raise StoreError(
        "the PostgreSQL driver is not installed", advice="Install it with `pip install 'callgate[postgres]'`."
    ) from error

from callgate.store.leases import SessionLeases

CHANNEL: Final = "callgate_changed"
# How long closing the store may wait for the listener.
STOP_SECONDS: Final = 0.2
# Advisory lock keys: "callgate" in ASCII, and what is locked.
SCHEMA_LOCK: Final = 0x63616C6C67617400 + 1
RECORDS_LOCK: Final = SCHEMA_LOCK + 1
SEQUENCER_LOCK: Final = SCHEMA_LOCK + 2
APPROVALS_LOCK: Final = SCHEMA_LOCK + 3

_TYPES: Final = ("int2", "int8", "text", "text", "text", "text", "text", "bytea", "bytea")
_INSERT: Final = (
    f"INSERT INTO audit_record ({','.join(COLUMNS)}) SELECT * FROM unnest("  # noqa: S608
    + ",".join(f"%b::{kind}[]" for kind in _TYPES)
    + ")"
)
# A record can be as large as a message: few at a time bound the memory. libpq hands out several since version 17.
_ROWS: Final = 16 if psycopg.pq.version() >= 170000 else 1
# The database's state, not the statement's fault.
_UNAVAILABLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedTable,
)
# Ids are handed out before they commit. Whoever inserts holds this lock in shared mode, so the sequencer,
# taking it alone for a moment, knows that no smaller id can appear later.
_SHARE: Final = f"SELECT pg_advisory_xact_lock_shared({RECORDS_LOCK})"
# A batch changes rows of several people in the order they came in; two batches that met row by row could wait for each
# other. One lock that each takes first rules that out, and makes counting exact.
_APPROVALS: Final = f"SELECT pg_advisory_xact_lock({APPROVALS_LOCK})"


class _Array(bytes):
    """An array in PostgreSQL's binary form. The driver would make it of objects for each element, five times slower."""


class _Int2Array(_Array): ...


class _Int8Array(_Array): ...


class _TextArray(_Array): ...


class _ByteaArray(_Array): ...


# The class of an array, its own oid and that of its elements, and how a number is packed.
_ARRAYS: Final[dict[str, tuple[type[_Array], int, int, Struct | None]]] = {
    "int2": (_Int2Array, 1005, 21, Struct("!ih")),
    "int8": (_Int8Array, 1016, 20, Struct("!iq")),
    "text": (_TextArray, 1009, 25, None),
    "bytea": (_ByteaArray, 1001, 17, None),
}
# Dimensions, whether there are NULLs, kind of the elements, how many, and the number of the first.
_ARRAY_HEAD: Final = Struct("!5i")
_LENGTH: Final = Struct("!i")
_NULL: Final = _LENGTH.pack(-1)


class _ArrayDumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY

    def dump(self, obj: _Array) -> bytes:
        return obj


for _kind, _oid, *_ in _ARRAYS.values():
    psycopg.adapters.register_dumper(_kind, type(f"{_kind.__name__}Dumper", (_ArrayDumper,), {"oid": _oid}))


def _array(kind: str, values: Sequence[Any]) -> bytes:
    made, _, element, number = _ARRAYS[kind]
    parts = [_ARRAY_HEAD.pack(1, None in values, element, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        elif number is not None:
            parts.append(number.pack(number.size - _LENGTH.size, value))
        else:
            raw = value.encode() if type(value) is str else value
            parts += (_LENGTH.pack(len(raw)), raw)
    return made(b"".join(parts))


class PostgresBackend:
    """PostgreSQL as a store."""

    name = "postgresql"

    def __init__(self, url: URL, *, durability: str, busy_seconds: float) -> None:
        self.url = url.set(drivername="postgresql+psycopg")
        # Host and port may also stand in the query; the options of a connection are not where it is.
        query = {name: url.query.get(name, "") for name in ("host", "port", "dbname")}
        self.place = (
            f"postgresql:{url.host or query['host']}:{url.port or query['port']}/{url.database or query['dbname']}"
        )
        self._durable = durability == "full"
        self.busy_seconds = busy_seconds
        # 0 would mean "wait for ever" to PostgreSQL.
        self._milliseconds = max(1, int(busy_seconds * 1000))
        self.engine = self._make_engine()
        self.leases = SessionLeases(self.single)
        # What the writer is about to commit of sessions that this process has to itself.
        self.written: list[tuple[str, StoredSession, int]] = []
        event.listen(self.engine, "engine_disposed", lambda _engine: self.leases.close())

    def _make_engine(self) -> Engine:
        engine = create_engine(
            self.url,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": max(2, math.ceil(self.busy_seconds)),
                "tcp_user_timeout": self._milliseconds,
                "keepalives_idle": 5,
                "application_name": "callgate",
                "prepare_threshold": 1,
            },
        )
        event.listen(engine, "connect", self._on_connect)
        return engine

    def _on_connect(self, driver: psycopg.Connection[Any], _record: object) -> None:
        driver.execute(f"SET lock_timeout = {self._milliseconds}".encode())
        if not self._durable:
            driver.execute("SET synchronous_commit = off")
        else:
            driver.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
        driver.commit()

    def prepare(self, *, create: bool) -> None:
        """The database itself is the operator's to make."""

    def lock_schema(self, conn: Connection) -> None:
        conn.execute(text(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"))

    def insert(self, driver: psycopg.Connection[Any], rows: Sequence[AuditRow]) -> None:
        # BEGIN, lock, INSERT and COMMIT travel together: one round trip a batch.
        with driver.pipeline():
            self.insert_within(driver, rows)
            driver.commit()

    def confirm(self) -> None:
        written, self.written = self.written, []
        for key, kept, since in written:
            self.leases.keep(key, kept, since)

    def begin(self, driver: psycopg.Connection[Any]) -> None:
        """The first statement does."""

    def commit(self, driver: psycopg.Connection[Any]) -> None:
        driver.commit()

    def insert_within(self, driver: psycopg.Connection[Any], rows: Sequence[AuditRow]) -> None:
        driver.execute(_SHARE)
        driver.execute(_INSERT, self.arrays(_TYPES, rows))

    @staticmethod
    def arrays(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bytes]:
        """An array for each column of some rows, for a statement that casts each to its kind."""
        return [_array(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]

    def stream(
        self, driver: psycopg.Connection[Any], statement: str, parameters: Sequence[Any]
    ) -> Generator[tuple[Any, ...]]:
        with driver.cursor() as cursor:
            yield from cursor.stream(statement.replace("?", "%b").encode(), parameters, binary=True, size=_ROWS)

    def doubting(self, conn: Connection) -> AbstractContextManager[None]:  # noqa: ARG002
        """Columns hold what their type says."""
        return nullcontext()

    def rollback(self, driver: psycopg.Connection[Any]) -> None:
        driver.rollback()

    def undone(self) -> None:
        self.written.clear()
        self.leases.sessions.clear()

    def outdated(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.errors.DivisionByZero)

    def unavailable(self, error: BaseException) -> StoreUnavailable | None:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, _UNAVAILABLE):
            first = str(cause).strip().splitlines() or [type(cause).__name__]
            return StoreUnavailable(
                f"PostgreSQL did not do it: {first[0]}",
                advice=f"Check that {self.url.host or 'its socket'} answers and has room; "
                "`callgate store check` tries it.",
            )
        return None

    def settled(self, conn: Connection) -> int:
        # Taking the lock waits for inserts under way and holds up new ones: give up rather than hold them up long.
        conn.execute(text("SET LOCAL lock_timeout = 500"))
        conn.execute(text(f"SELECT pg_advisory_xact_lock({RECORDS_LOCK})"))
        return int(conn.execute(text("SELECT coalesce(max(id), 0) FROM audit_record")).scalar_one())

    def take_turn(self, conn: Connection) -> bool:
        return bool(conn.execute(text(f"SELECT pg_try_advisory_xact_lock({SEQUENCER_LOCK})")).scalar_one())

    def hold_approvals(self, driver: psycopg.Connection[Any]) -> None:
        driver.execute(_APPROVALS)

    def together(self, driver: psycopg.Connection[Any]) -> AbstractContextManager[object]:
        return driver.pipeline()

    def announce(self, conn: Connection) -> None:
        conn.execute(text(f"SELECT pg_notify('{CHANNEL}', '')"))

    def watch(self, changed: Callable[[], None], stop: Event) -> None:
        while not stop.is_set():
            try:
                self._listen(changed, stop)
            except psycopg.Error:
                stop.wait(0.5)

    def single(self) -> psycopg.Connection[Any]:
        """A connection for single statements, each a transaction of its own that does not take for ever."""
        plain = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        return psycopg.connect(
            plain,
            autocommit=True,
            connect_timeout=max(2, math.ceil(self.busy_seconds)),
            tcp_user_timeout=self._milliseconds,
            application_name="callgate look",
            prepare_threshold=1,
            options=f"-c statement_timeout={self._milliseconds}",
        )

    def _listen(self, changed: Callable[[], None], stop: Event) -> None:
        plain = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True, connect_timeout=5, application_name="callgate watch") as driver:
            driver.execute(f"LISTEN {CHANNEL}".encode())
            # What changed while nobody listened is not told again.
            changed()
            while not stop.is_set():
                for _ in driver.notifies(timeout=STOP_SECONDS, stop_after=1):
                    changed()


class PostgresReader:
    """One query with one parameter, asked on the event loop itself: a thread for each answer costs several times more.

    What was committed before the question is in the answer. A connection that is not in use waits for the next one.
    """

    def __init__(self, backend: PostgresBackend, statement: bytes) -> None:
        self._backend = backend
        self._statement = statement
        self._idle: list[psycopg.Connection[Any]] = []
        self._closed = False
        event.listen(backend.engine, "engine_disposed", lambda _engine: self._end())

    async def rows(self, parameter: bytes) -> list[tuple[bytes, ...]]:
        """The rows as text; StoreUnavailable, or what the driver says, where there is no answer."""
        try:
            async with asyncio.timeout(self._backend.busy_seconds + 1.0):
                return await self._ask(parameter)
        except TimeoutError:
            raise StoreUnavailable("PostgreSQL did not answer in time", advice="Run `callgate store check`.") from None
        except psycopg.Error as error:
            known = self._backend.unavailable(error)
            if known is None:
                raise
            raise known from error

    async def _ask(self, parameter: bytes) -> list[tuple[bytes, ...]]:
        if not self._idle:
            await asyncio.to_thread(self._connect)
        driver = self._idle.pop()
        try:
            results = await _results(driver.pgconn, parameter)
        except BaseException:
            driver.close()
            raise
        self._idle.append(driver)
        if self._closed:
            self._end()
        for result in results:
            if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
                raise psycopg.errors.error_from_result(result)
        return [
            tuple(result.get_value(row, column) or b"" for column in range(result.nfields))
            for result in results
            for row in range(result.ntuples)
        ]

    def _connect(self) -> None:
        if self._closed:
            raise psycopg.OperationalError("the store is closed")
        driver = self._backend.single()
        try:
            prepared = driver.pgconn.prepare(_READ, self._statement)
            if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(prepared)
        except BaseException:
            driver.close()
            raise
        self._idle.append(driver)

    def _end(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


_READ: Final = b"callgate_read"


async def _results(connection: psycopg.pq.abc.PGconn, parameter: bytes) -> list[psycopg.pq.abc.PGresult]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[psycopg.pq.abc.PGresult]] = loop.create_future()
    results: list[psycopg.pq.abc.PGresult] = []

    def arrived() -> None:
        if answer.done():
            return
        try:
            connection.consume_input()
            while not connection.is_busy():
                result = connection.get_result()
                if result is None:
                    answer.set_result(results)
                    return
                results.append(result)
        except psycopg.Error as error:
            answer.set_exception(error)

    connection.send_query_prepared(_READ, [parameter])
    try:
        loop.add_reader(connection.socket, arrived)
    except NotImplementedError:
        # An event loop of Windows that cannot watch sockets of others.
        return await asyncio.to_thread(_waited_for, connection)
    try:
        return await answer
    finally:
        loop.remove_reader(connection.socket)


def _waited_for(connection: psycopg.pq.abc.PGconn) -> list[psycopg.pq.abc.PGresult]:
    return list(iter(connection.get_result, None))


def text_array(items: Iterable[str]) -> bytes:
    """An array of texts as PostgreSQL reads one."""
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return ("{" + ",".join(quoted) + "}").encode()
