"""Directories: where keys of agents come from, and which agent a key belongs to."""

from callgate.agents.directories.addresses import INLINE, SELF, STATIC, directory_url
from callgate.agents.directories.documents import Times
from callgate.agents.directories.explaining import DirectoryShown, Explained, KeyShown, Refreshed, Step
from callgate.agents.directories.listing import AgentDirectory, Composed, Identity, Roster, StaticDirectory
from callgate.agents.directories.looking import Directories
from callgate.agents.directories.sources import Discovery, Sources

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
