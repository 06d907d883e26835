"""What a gateway has learnt from servers, kept apart for each wrapped one: two of them may have the same name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from callgate.approval.requirements import ToolCatalogue
from callgate.pinning.identity import ServerRef
from callgate.trust.session_cache import ClientOrigin

if TYPE_CHECKING:
    from callgate.app.approval import ApprovalPolicies
    from callgate.pinning.toolsets import Toolsets
    from callgate.trust.tool_annotations import AnnotationObserver
    from callgate.trust.user_prompts import ReportedPrompts


class ServerObservations:
    """Of the servers that a configuration names, or of the one behind `place`, which `origin` started.

    Each part is made by the first configuration that needs it, and stays when that changes.
    """

    def __init__(self, place: ServerRef | None = None, origin: ClientOrigin | None = None) -> None:
        self.place = place
        self.origin = origin or ClientOrigin()
        self.catalogues: dict[str, ToolCatalogue] = {}
        self.gatings: ApprovalPolicies | None = None
        self.toolsets: Toolsets | None = None
        self.learning: AnnotationObserver | None = None
        self.prompts: ReportedPrompts | None = None

    def forget(self, server: str) -> None:
        """The server of that name is another one now."""
        self.catalogues.pop(server, None)
        if self.toolsets is not None:
            self.toolsets.forget(server)

    def hear(self, server: str, message: bytes) -> None:
        """A message that a server sent of its own accord."""
        # Letters may be written as escapes; what has neither the word nor an escape is not worth a closer look.
        if b"list_changed" not in message and b"\\u" not in message:
            return
        known = self.catalogues.get(server)
        if known is not None:
            known.hear(message)
        if self.toolsets is not None:
            self.toolsets.hear(server, message)

    def remember(self, server: str, entry: dict[str, Any]) -> None:
        """A tool as a reviewer approved it, where the server says something else beside it by now."""
        if self.gatings is not None:
            self.gatings[server].catalogue.remember(entry)

    def listed(self, server: str, digest: str, entries: Iterable[bytes]) -> None:
        """A list that was read: its digest, and its entries as they came."""
        if self.learning is not None:
            self.learning.met(server, digest, entries)
