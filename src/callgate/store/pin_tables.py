"""The shelf of tool pinning on a store: decisions, sightings, connected servers."""

from __future__ import annotations

from callgate.store.pin_decisions import SqlDecisions
from callgate.store.pin_places import SqlPlaces
from callgate.store.pin_sightings import SqlSightings


class SqlPins(SqlDecisions, SqlSightings, SqlPlaces):
    """The pinning room's `PinShelf`, each method one transaction; a witness is an `AuditRow` written in it."""


__all__ = ["SqlPins"]
