"""Callgate: the checked door between AI agents and the MCP tools they call.

What a library user needs is here; everything else may change without notice.
"""

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
    "__version__",
]
