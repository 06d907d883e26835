"""The bounds and choices of a deployment that pinning follows."""

from __future__ import annotations

from typing import Literal

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """As `[pinning]` in callgate.toml says it; see there for each."""

    mode: Literal["enforce", "observe", "off"] = "enforce"
    recheck_seconds: float = 15.0
    tool_bytes: int = 65_536
    tool_tokens: int = 16_384
    list_tools: int = 1_000
    list_bytes: int = 4 * 1024 * 1024
    list_tokens: int = 524_288
    growth_percent: float = 10.0
    beside: Literal["flag", "block"] = "flag"
    strict_schemas: bool = False
    servers: int = 20
    set_review: Literal["shadowing", "always", "never"] = "shadowing"
    rollback: Literal["ask", "allow"] = "ask"
    pending_tool: bool = True
    on_behalf_of: str = "every agent that uses this gateway"
    # An identity that was not met for so long counts as an orphan.
    orphan_days: int = 30
