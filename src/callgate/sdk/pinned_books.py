"""What a pinned client keeps on record: decisions on calls and how they ended, lists as they were met, and changes."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from mcp_types import CallToolResult, InputRequiredResult, Result

from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.errors import CallgateError
from callgate.gate import Call, Decision
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import ObservedServer
from callgate.pinning.model import Change, ServerSeen
from callgate.pinning.storage import PinRepository
from callgate.recording import decision_record
from callgate.sdk.client_outcome import bounded
from callgate.sdk.pinned_line import Verified

log = logging.getLogger("callgate.pinning")

_TOLD_MAX: Final = 1_000
_TOUCH_SECONDS: Final = 10.0
_BY: Final = "client"


class Books:
    """One for each connection. `name`, `group` and `target` are the server's, as the author has them."""

    def __init__(
        self,
        shelf: PinRepository,
        audit: AuditLog,
        policy: ArgumentsPolicy,
        *,
        process: str,
        growth_percent: float,
        review: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._audit = audit
        self._policy = policy
        self._process = process
        self._growth = growth_percent
        self._review = review
        self._clock = clock
        self._written: tuple[str, str, float] = ("", "", 0.0)

    def now(self) -> int:
        return round(self._clock() * 1000)

    # ---- calls ----

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable before the call leaves."""
        await self._audit.decided(decision_record(call, decision, self._policy, self._process))
        if decision.refused is not None:
            # Whoever called is told by an exception.
            log.info("call of %r refused: %s", bounded(call.tool), decision.refused.reason.value)

    def answered(self, call: Call, result: Result, seconds: float) -> None:
        """How a call ended that was answered."""
        body = result.model_dump_json(by_alias=True, exclude_none=True).encode()
        outcome = "result"
        if isinstance(result, InputRequiredResult):
            outcome = "input_required"
        elif isinstance(result, CallToolResult) and result.is_error:
            outcome = "tool_error"
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self._completed(call, outcome, seconds, bytes=len(body), result_hash=digest)

    def failed(self, call: Call, outcome: str, seconds: float, code: int | None = None) -> None:
        """How a call ended that was not."""
        self._completed(call, outcome, seconds, code=code)

    def _completed(self, call: Call, outcome: str, seconds: float, **more: Any) -> None:
        ms = round(seconds * 1000)
        self._audit.completed(OutcomeRecord(call=call.id, at=self.now(), outcome=outcome, ms=ms, **more))

    def odd_arguments(self, call: Call, what: tuple[str, ...]) -> None:
        """Arguments that look like something that should not leave; they are not repeated here."""
        detail = {"server": call.context.server, "tool": call.tool, "call": call.id, "found": list(what)}
        log.warning("odd arguments of %r: %s", call.tool, ", ".join(what), extra={"fields": dict(detail)})
        self._note("pinning.arguments", detail)

    # ---- lists ----

    async def met(self, sight: ObservedServer, found: Verified, toolset: Toolset) -> None:
        """A whole list was read: keep it for reviewers, and tell of what is another than before."""
        server, listing, at = sight.server, found.listing, self._clock()
        again = self._written[:2] == (server.server_id, listing.digest)
        if again and not found.fresh and at - self._written[2] < _TOUCH_SECONDS:
            return
        try:
            before = next((one for one in await self._shelf.servers() if one.lineage == server.lineage), None)
            changes = await self._shelf.saw(server, sight.tools, whole=sight.whole)
        except CallgateError as error:
            # Nobody can approve what could not be kept; what was approved before goes on.
            log.warning("tools of %s not kept for review: %s", server.name, error)
            return
        self._written = (server.server_id, listing.digest, at)
        if found.fresh or not again:
            self._checked(server, found, toolset)
        if before is not None and before.size and server.size > before.size * (1 + self._growth / 100):
            self._alert("grown", server, {"before": before.size, "after": server.size})
        for change in changes:
            if change.what != "new":
                self._alert("changed", server, _told(change))

    def _checked(self, server: ServerSeen, found: Verified, toolset: Toolset) -> None:
        states = {name: toolset.standings[name].state.value for name in sorted(toolset.standings)[:_TOLD_MAX]}
        detail = {
            "server": server.name,
            "server_id": server.server_id,
            "toolset": toolset.version,
            "count": len(toolset.standings),
            "problem": found.listing.problem or None,
            "tools": states,
        }
        self._note("pinning.checked", detail)
        if toolset.pending:
            count = len(toolset.pending)
            many = ("tools", "wait") if count > 1 else ("tool", "waits")
            log.warning("%d %s of %s %s for review: %s", count, many[0], server.name, many[1], self._review)

    def _alert(self, what: str, server: ServerSeen, detail: dict[str, Any]) -> None:
        words = "the list of %s has grown: %s" if what == "grown" else "a tool of %s has changed: %s"
        whole = {"server": server.name, "server_id": server.server_id, **detail}
        log.warning(words, server.name, json.dumps(detail), extra={"fields": dict(whole)})
        self._note(f"pinning.{what}", whole)

    def _note(self, action: str, detail: dict[str, Any]) -> None:
        try:
            self._audit.store.append_soon(self._audit.admin(action, _BY, detail))
        except (CallgateError, TypeError, ValueError) as error:
            log.error("%s is not on record: %s", action, error)


def _told(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {
        "tool": change.tool,
        "what": change.what,
        "before": change.before or None,
        "after": change.after or None,
    }
    return told | ({"members": list(change.members)} if change.members else {})
