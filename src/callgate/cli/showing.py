"""The console for whoever runs a gateway: made only where calls or tools may need a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callgate.app.console import ConsoleSources
    from callgate.transport.http.exchange import Asgi


def make_console(shown: ConsoleSources) -> Asgi:
    """The console's application over what a gateway has."""
    from callgate.app.approval import demands
    from callgate.console.app import console_app
    from callgate.console.rooms import Rooms
    from callgate.store import SqlPins

    config = shown.config

    def describe(server: str) -> str:
        known = config.servers.get(server)
        return "" if known is None else known.target

    return console_app(
        shown.approvals,
        origin=shown.origin,
        secure=shown.origin.startswith("https:"),
        describe_server=describe,
        pins=shown.pins,
        reviewers=config.pinning.reviewers,
        configured=lambda: {name: server.pinning.group or "" for name, server in config.servers.items()} or None,
        trust=shown.trust,
        rooms=Rooms(
            store=shown.store,
            log=shown.log,
            agents=shown.agents,
            switch=shown.switch,
            config=config,
            path=shown.path,
        ),
        demands=lambda: demands(config, SqlPins(shown.store)),
    )
