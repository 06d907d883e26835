"""Which schema a store has, and bringing it to ours."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from callgate.errors import StoreTooNew, StoreTooOld
from callgate.store.schema import HEAD, VERSIONS


def version(conn: Connection) -> str | None:
    """The store's schema version; None when it holds no schema yet."""
    if not inspect(conn).has_table("alembic_version"):
        return None
    row = conn.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])


def require_current(found: str | None) -> None:
    """Refuse a store that this Callgate must not write to."""
    if found == HEAD:
        return
    if found in VERSIONS:
        raise StoreTooOld(
            f"the store has schema {found}, this Callgate needs {HEAD}",
            advice="Stop the gateways on it, make a copy with `callgate store backup FILE`, "
            "then run `callgate store upgrade`.",
        )
    raise StoreTooNew(
        f"the store has schema {found}, which is newer than this Callgate knows ({HEAD})",
        advice="Install the Callgate that wrote it, or name another store with --store.",
    )


def upgrade(conn: Connection, target: str = HEAD) -> None:
    """Run the missing migrations inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, target)
