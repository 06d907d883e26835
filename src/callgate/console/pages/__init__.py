"""The pages, one module each with `routes(desk)`: none where the gateway lacks what a page shows."""

from __future__ import annotations

from typing import Final

from callgate.console.pages import (
    agents,
    approvals,
    approve,
    audit,
    enrol,
    events,
    home,
    me,
    passkeys,
    people,
    policy,
    quarantine,
    recover,
    servers,
    sessions,
    settings,
    sign_in,
    tool,
    tools,
)

PAGES: Final = (
    home,
    approvals,
    approve,
    tools,
    tool,
    sessions,
    quarantine,
    people,
    servers,
    agents,
    policy,
    audit,
    settings,
    events,
    me,
    passkeys,
    sign_in,
    enrol,
    recover,
)
