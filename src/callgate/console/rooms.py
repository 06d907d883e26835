"""What a gateway has for its console to show beyond approvals; a page whose part is missing is not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from callgate.audit import AuditLog
from callgate.config import Config
from callgate.store import KillSwitch, SqlAgents, Store


@dataclass(frozen=True)
class Rooms:
    """The gateway's own store and log, its agents, and the configuration in force with the file it came from."""

    store: Store
    log: AuditLog
    agents: SqlAgents
    switch: KillSwitch
    config: Config
    path: Path | None = None
