"""Callgate: the checked door between AI agents and the MCP tools they call.

What a library user needs is here; everything else may change without notice. What builds on the `mcp` SDK is loaded
when it is first asked for: the rest works without `pip install 'callgate[sdk]'`.
"""

from typing import TYPE_CHECKING, Any

from callgate._version import __version__
from callgate.errors import (
    AuditError,
    CallgateError,
    ConfigError,
    KeyringError,
    MessageError,
    Reason,
    Refused,
    StoreError,
    Tampered,
    UpstreamError,
)
from callgate.gate import Approve, Ask, Call, Check, Context, Decision, Gate, Pass, Refuse, Verdict

if TYPE_CHECKING:
    from callgate.sdk import sign
    from callgate.sdk.server import VerifiedApproval

__all__ = [
    "Approve",
    "Ask",
    "AuditError",
    "Call",
    "CallgateError",
    "Check",
    "ConfigError",
    "Context",
    "Decision",
    "Gate",
    "KeyringError",
    "MessageError",
    "Pass",
    "Reason",
    "Refuse",
    "Refused",
    "StoreError",
    "Tampered",
    "UpstreamError",
    "Verdict",
    "VerifiedApproval",
    "__version__",
    "sign",
]

_NEEDS_SDK = {"VerifiedApproval": "callgate.sdk.server"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "sign":
        return import_module("callgate.sdk.sign")
    if name not in _NEEDS_SDK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    try:
        return getattr(import_module(_NEEDS_SDK[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ImportError(f"callgate.{name} needs the `mcp` SDK: pip install 'callgate[sdk]'") from error
