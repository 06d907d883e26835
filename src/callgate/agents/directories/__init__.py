"""Directories: where keys of agents come from, and which agent a key belongs to."""

from callgate.agents.directories.documents import Times
from callgate.agents.directories.listing import (
    INLINE,
    SELF,
    STATIC,
    AgentDirectory,
    Composed,
    Identity,
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
    Refreshed,
    Sources,
    Step,
)

__all__ = [
    "INLINE",
    "SELF",
    "STATIC",
    "AgentDirectory",
    "Composed",
    "Directories",
    "DirectoryShown",
    "Discovery",
    "Explained",
    "Identity",
    "KeyShown",
    "Refreshed",
    "Roster",
    "Sources",
    "StaticDirectory",
    "Step",
    "Times",
    "directory_url",
]
