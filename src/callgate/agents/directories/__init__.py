"""Directories: where keys of agents come from, and which agent a key belongs to."""

from callgate.agents.directories.documents import Times
from callgate.agents.directories.listing import (
    INLINE,
    SELF,
    STATIC,
    AgentDirectory,
    AgentIdentity,
    Composed,
    Roster,
    StaticDirectory,
    directory_url,
)
from callgate.agents.directories.lookup import (
    Directories,
    DirectoryShown,
    Discovery,
    Explained,
    KeyShown,
    LookupStep,
    Refreshed,
    Sources,
)

__all__ = [
    "INLINE",
    "SELF",
    "STATIC",
    "AgentDirectory",
    "AgentIdentity",
    "Composed",
    "Directories",
    "DirectoryShown",
    "Discovery",
    "Explained",
    "KeyShown",
    "LookupStep",
    "Refreshed",
    "Roster",
    "Sources",
    "StaticDirectory",
    "Times",
    "directory_url",
]
