"""Directories: where keys of agents come from, and which agent a key belongs to."""

from callgate.agents.directories.documents import INLINE, Times
from callgate.agents.directories.lookup import (
    SELF,
    STATIC,
    AgentDirectory,
    AgentIdentity,
    Composed,
    Directories,
    DirectoryShown,
    Discovery,
    Explained,
    HttpDirectory,
    KeyShown,
    LookupStep,
    Refreshed,
    Roster,
    Sources,
    StaticDirectory,
    directory_url,
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
    "HttpDirectory",
    "KeyShown",
    "LookupStep",
    "Refreshed",
    "Roster",
    "Sources",
    "StaticDirectory",
    "Times",
    "directory_url",
]
