"""The pages, one module each with `routes(context)`: none where the gateway lacks what a page shows."""

from __future__ import annotations

from typing import Final

from callgate.console.pages import (
    agents,
    approvals,
    audit,
    devices,
    events,
    grants,
    home,
    me,
    people,
    policy,
    servers,
    sessions,
    settings,
    sign_in,
    tools,
)

PAGES: Final = (
    home,
    approvals,
    tools,
    sessions,
    people,
    servers,
    agents,
    grants,
    policy,
    audit,
    settings,
    events,
    me,
    devices,
    sign_in,
)
