"""What a gateway hands to whoever makes its console, which it does not know itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from callgate.transport.http.exchange import Asgi

if TYPE_CHECKING:
    from callgate.approval import Approvals
    from callgate.approval.delegation import Delegable
    from callgate.audit import AuditLog
    from callgate.config import Config
    from callgate.pinning.service import Pins
    from callgate.store import KillSwitch, SqlAgents, Store
    from callgate.trust.service import TrustService


@dataclass(frozen=True)
class ConsoleSources:
    """The configuration in force, the services that are on, and the origin that browsers see the console under."""

    config: Config
    approvals: Approvals
    origin: str
    pins: Pins | None
    trust: TrustService | None
    store: Store
    log: AuditLog
    agents: SqlAgents
    switch: KillSwitch
    path: Path | None
    # The tools that a grant can be about.
    delegable: Callable[[], Awaitable[Sequence[Delegable]]]


# Makes the console's application from what a gateway has to show.
MakeConsole: TypeAlias = Callable[[ConsoleSources], Asgi]
