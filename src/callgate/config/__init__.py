"""callgate.toml: typed, with every key documented and every mistake located."""

from callgate.config.agents import AgentRules, AgentsSection, ApiKeysSection, KnownAgent, Kya, OAuth, Signatures
from callgate.config.approval import ApprovalSection, ServerApproval
from callgate.config.loading import FILE_NAME, OVERRIDES, find, load, parse
from callgate.config.model import Config, ServerLimits, StoreSection
from callgate.config.notify import Notify
from callgate.config.output import schema, show
from callgate.config.pinning import Pinning, ServerPinning
from callgate.config.rules import Address, parse_address
from callgate.config.secret import Secret
from callgate.config.server import ServerSection
from callgate.config.trust import ArgumentLabels, ServerTrust, ToolLabels, TrustDefaults

__all__ = [
    "FILE_NAME",
    "OVERRIDES",
    "Address",
    "AgentRules",
    "AgentsSection",
    "ApiKeysSection",
    "ApprovalSection",
    "ArgumentLabels",
    "Config",
    "KnownAgent",
    "Kya",
    "Notify",
    "OAuth",
    "Pinning",
    "Secret",
    "ServerApproval",
    "ServerLimits",
    "ServerPinning",
    "ServerSection",
    "ServerTrust",
    "Signatures",
    "StoreSection",
    "ToolLabels",
    "TrustDefaults",
    "find",
    "load",
    "parse",
    "parse_address",
    "schema",
    "show",
]
