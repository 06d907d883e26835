"""callgate.toml: typed, with every key documented and every mistake located."""

from callgate.config.approval import Approval, ServerApproval
from callgate.config.loading import FILE_NAME, OVERRIDES, find, load, parse, read
from callgate.config.model import (
    Audit,
    Config,
    Gateway,
    Limits,
    Logging,
    Policy,
    ServerLimits,
    Store,
    Telemetry,
)
from callgate.config.pinning import Pinning, ServerPinning
from callgate.config.rules import Address, parse_address
from callgate.config.schema import schema
from callgate.config.secret import Secret
from callgate.config.server import Server
from callgate.config.show import show

__all__ = [
    "FILE_NAME",
    "OVERRIDES",
    "Address",
    "Approval",
    "Audit",
    "Config",
    "Gateway",
    "Limits",
    "Logging",
    "Pinning",
    "Policy",
    "Secret",
    "Server",
    "ServerApproval",
    "ServerLimits",
    "ServerPinning",
    "Store",
    "Telemetry",
    "find",
    "load",
    "parse",
    "parse_address",
    "read",
    "schema",
    "show",
]
