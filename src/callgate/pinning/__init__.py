"""Is this the tool that was approved? A hash of description, schema and server identity, checked on every list."""

from callgate.pinning.chain import Book
from callgate.pinning.document import approval_hash
from callgate.pinning.identity import http_identity, library_identity, reported_as, stdio_identity
from callgate.pinning.judging import Standing, Toolset, judge
from callgate.pinning.model import (
    PENDING_TOOL,
    SCHEME,
    TOOLSET_META,
    Change,
    Connected,
    Identity,
    Listed,
    Pin,
    ServerSeen,
    Settings,
    State,
    ToolSeen,
)
from callgate.pinning.review.views import (
    Difference,
    Piece,
    Review,
    SchemaEdit,
    ServerStatus,
    ServerView,
    SetView,
    ToolView,
)
from callgate.pinning.service import Choice, Pins, Witness, no_witness
from callgate.pinning.storage import Bounds, PinShelf

__all__ = [
    "PENDING_TOOL",
    "SCHEME",
    "TOOLSET_META",
    "Book",
    "Bounds",
    "Change",
    "Choice",
    "Connected",
    "Difference",
    "Identity",
    "Listed",
    "Piece",
    "Pin",
    "PinShelf",
    "Pins",
    "Review",
    "SchemaEdit",
    "ServerSeen",
    "ServerStatus",
    "ServerView",
    "SetView",
    "Settings",
    "Standing",
    "State",
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
