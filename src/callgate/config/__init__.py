"""callgate.toml: typed, with every key documented and every mistake located."""

from callgate.config.agent_rules import AgentRules, KnownAgent
from callgate.config.agents import Agents, ApiKeys, Kya, OAuth, Signatures
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
from callgate.config.notify import Notify
from callgate.config.pinning import Pinning, ServerPinning
from callgate.config.rules import Address, parse_address
from callgate.config.schema import schema
from callgate.config.secret import Secret
from callgate.config.server import Server
from callgate.config.show import show
from callgate.config.trust import ArgumentLabels, ServerTrust, ToolLabels, Trust, TrustDefaults

__all__ = [
    "FILE_NAME",
    "OVERRIDES",
    "Address",
    "AgentRules",
    "Agents",
    "ApiKeys",
    "Approval",
    "ArgumentLabels",
    "Audit",
    "Config",
    "Gateway",
    "KnownAgent",
    "Kya",
    "Limits",
    "Logging",
    "Notify",
    "OAuth",
    "Pinning",
    "Policy",
    "Secret",
    "Server",
    "ServerApproval",
    "ServerLimits",
    "ServerPinning",
    "ServerTrust",
    "Signatures",
    "Store",
    "Telemetry",
    "ToolLabels",
    "Trust",
    "TrustDefaults",
    "find",
    "load",
    "parse",
    "parse_address",
    "read",
    "schema",
    "show",
]
