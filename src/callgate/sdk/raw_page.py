"""A page of a server's list of tools as it came: the SDK's types leave out the members that they do not know."""

from __future__ import annotations

from typing import Any

from mcp_types import ListToolsResult
from pydantic import ModelWrapValidatorHandler, PrivateAttr, model_validator


class RawPage(ListToolsResult):
    """A page that remembers what it was made from."""

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember(cls, data: Any, handler: ModelWrapValidatorHandler[RawPage]) -> RawPage:
        made = handler(data)
        made._raw = data if isinstance(data, dict) else {}  # noqa: SLF001 - its own
        return made

    @property
    def raw(self) -> dict[str, Any]:
        return self._raw
