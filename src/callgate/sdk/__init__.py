"""For authors of MCP servers and clients: verified approval, tool pinning in clients, trust labels on both sides; and
Web Bot Auth, for agents that sign (`callgate.sdk.sign`) and apps that verify (`callgate.sdk.web_bot_auth`).

Names are looked up when they are used: the `mcp` SDK and the USB library are needed only by those who use them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from callgate.errors import ConfigError

if TYPE_CHECKING:
    from callgate.sdk.agent_keys import AgentKey
    from callgate.sdk.authenticators.browser import BrowserAuthenticator
    from callgate.sdk.authenticators.security_key import SecurityKey
    from callgate.sdk.client import ApprovalClient
    from callgate.sdk.outcome import Cancelled, Done, Enrolled, Failed, NotCalled, Outcome, RefusedByServer, TimedOut
    from callgate.sdk.pinned import PinnedClient, library_identity
    from callgate.sdk.trust import Alert, Question, TrustTracker
    from callgate.sdk.trust.client import TrackedClient
    from callgate.sdk.trust.labels import Flagged, TrustLabels, open_world_to_public
    from callgate.sdk.web_bot_auth import WebBotAuthMiddleware

_HOMES: Final = {
    "AgentKey": "agent_keys",
    "Alert": "trust",
    "ApprovalClient": "client",
    "BrowserAuthenticator": "authenticators.browser",
    "Cancelled": "outcome",
    "Done": "outcome",
    "Enrolled": "outcome",
    "Failed": "outcome",
    "Flagged": "trust.labels",
    "NotCalled": "outcome",
    "Outcome": "outcome",
    "PinnedClient": "pinned",
    "Question": "trust",
    "RefusedByServer": "outcome",
    "SecurityKey": "authenticators.security_key",
    "TimedOut": "outcome",
    "TrackedClient": "trust.client",
    "TrustLabels": "trust.labels",
    "TrustTracker": "trust",
    "WebBotAuthMiddleware": "web_bot_auth",
    "library_identity": "pinned",
    "open_world_to_public": "trust.labels",
}
_EXTRAS: Final = {"mcp": "sdk", "mcp_types": "sdk", "fido2": "usb"}

__all__ = [
    "AgentKey",
    "Alert",
    "ApprovalClient",
    "BrowserAuthenticator",
    "Cancelled",
    "Done",
    "Enrolled",
    "Failed",
    "Flagged",
    "NotCalled",
    "Outcome",
    "PinnedClient",
    "Question",
    "RefusedByServer",
    "SecurityKey",
    "TimedOut",
    "TrackedClient",
    "TrustLabels",
    "TrustTracker",
    "WebBotAuthMiddleware",
    "library_identity",
    "open_world_to_public",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        text = f"{name} needs a package that is not installed"
        raise ConfigError(text, advice=f"pip install 'callgate[{extra}]'") from missing
