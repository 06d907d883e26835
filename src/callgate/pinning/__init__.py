"""Is this the tool that was approved? A hash of description, schema and server identity, checked on every list."""

from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import approval_hash
from callgate.pinning.identity import http_identity, library_identity, reported_as, stdio_identity
from callgate.pinning.judging import Standing, Toolset, judge
from callgate.pinning.model import (
    PENDING_TOOL,
    SCHEME,
    TOOLSET_META,
    Change,
    Connected,
    ListedTool,
    Pin,
    PinningSettings,
    ServerIdentity,
    ServerSeen,
    State,
    ToolSeen,
)
from callgate.pinning.review.views import (
    Piece,
    Review,
    SchemaEdit,
    ServerStatus,
    ServerView,
    SetView,
    TextDifference,
    ToolView,
)
from callgate.pinning.service import Choice, Pins, Witness, no_witness
from callgate.pinning.storage import PinBounds, PinRepository

# The names that client authors know from `PinnedClient`.
Identity, Settings = ServerIdentity, PinningSettings

__all__ = [
    "PENDING_TOOL",
    "SCHEME",
    "TOOLSET_META",
    "Change",
    "Choice",
    "Connected",
    "DecisionChain",
    "Identity",
    "ListedTool",
    "Piece",
    "Pin",
    "PinBounds",
    "PinRepository",
    "PinningSettings",
    "Pins",
    "Review",
    "SchemaEdit",
    "ServerIdentity",
    "ServerSeen",
    "ServerStatus",
    "ServerView",
    "SetView",
    "Settings",
    "Standing",
    "State",
    "TextDifference",
    "ToolSeen",
    "ToolView",
    "Toolset",
    "Witness",
    "approval_hash",
    "http_identity",
    "judge",
    "library_identity",
    "no_witness",
    "reported_as",
    "stdio_identity",
]
