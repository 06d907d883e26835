"""Callgate checks every call that AI agents make to MCP tools.

What a library user needs is here; everything else may change without notice. Each name is loaded when it is first
asked for: `callgate prompt` has no time for any of them, and all but `VerifiedApproval` work without
`pip install 'callgate[sdk]'`.
"""

from __future__ import annotations

from callgate._version import __version__

# As `typing` has it, without the time to load that.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

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

_OF_THE_GATE = frozenset(
    ("Approve", "Ask", "Call", "Check", "Context", "Decision", "Gate", "Pass", "Refuse", "Verdict")
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "sign":
        return import_module("callgate.sdk.sign")
    if name == "VerifiedApproval":
        return _needs_sdk(name)
    found = getattr(import_module("callgate.gate" if name in _OF_THE_GATE else "callgate.errors"), name)
    globals()[name] = found
    return found


def _needs_sdk(name: str) -> Any:
    from importlib import import_module

    try:
        return getattr(import_module("callgate.sdk.server"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ImportError(f"callgate.{name} needs the `mcp` SDK: pip install 'callgate[sdk]'") from error
