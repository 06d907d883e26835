"""The console for whoever runs a gateway: made only where calls may need a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callgate.approval import Approvals
    from callgate.config import Config
    from callgate.gateway.app import Asgi, MakeConsole


def console_for(config: Config) -> MakeConsole:
    """Makes the console's application for a service and the origin that browsers see it under."""

    def describe(server: str) -> str:
        known = config.servers.get(server)
        return "" if known is None else known.target

    def make(approvals: Approvals, origin: str) -> Asgi:
        from callgate.console.app import console_app

        return console_app(approvals, origin=origin, secure=origin.startswith("https:"), describe_server=describe)

    return make
