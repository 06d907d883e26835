"""The console for whoever runs a gateway: made only where calls or tools may need a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callgate.approval import Approvals
    from callgate.config import Config
    from callgate.gateway.app import Asgi
    from callgate.pinning.service import Pins
    from callgate.trust.service import TrustService


def make_console(
    config: Config, approvals: Approvals, origin: str, pins: Pins | None, trust: TrustService | None = None
) -> Asgi:
    """The console's application, for its services and the origin that browsers see it under."""
    from callgate.console.app import console_app

    def describe(server: str) -> str:
        known = config.servers.get(server)
        return "" if known is None else known.target

    return console_app(
        approvals,
        origin=origin,
        secure=origin.startswith("https:"),
        describe_server=describe,
        pins=pins,
        reviewers=config.pinning.reviewers,
        configured=lambda: {name: server.pinning.group or "" for name, server in config.servers.items()} or None,
        trust=trust,
    )
