"""Callgate: the checked door between AI agents and the MCP tools they call."""

from callgate._version import __version__

__all__ = ["__version__"]
