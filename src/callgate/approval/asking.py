"""Asking a person on a page of ours: the call waits, the person reads what the gate hashed, and signs or refuses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from callgate.approval.action import check_tool_name
from callgate.approval.ceremony import Ceremony, Issued, action_hash_of
from callgate.approval.display import Describe, display_text
from callgate.approval.encoding import to_base64url
from callgate.approval.model import Gated, GrantUse, Request
from callgate.approval.storage import Bounds
from callgate.errors import Reason, Refused

_ID: Final = 18
_NOTE_CHARS: Final = 500
# Why a person is asked: a rule, its sentence, and a line on each argument.
WHY_CHARS: Final = 4_000
# A person on our own page is not held up by what agents have opened in their name.
PAGE_BOUNDS: Final = Bounds(per_user=1_000, in_all=1_000_000)


class Asking(Ceremony):
    """Requests, their pages, and the single call that an approval lets through."""

    async def ask(
        self,
        gated: Gated,
        arguments: dict[str, Any],
        canonical: bytes,
        user: str,
        *,
        caller: str,
        agent: dict[str, str],
        why: str = "",
        page: str = "",
        describe: Describe | None = None,
    ) -> Request:
        """Open a request for this call, or find the open one for the same call of the same caller."""
        check_tool_name(gated.tool)
        self.check_call(gated, arguments, canonical)
        await self.approving(user, gated.policy)
        now = self.now()
        request = Request(
            id=to_base64url(self._random(_ID)),
            user=user,
            server=gated.server,
            tool=gated.tool,
            caller=caller,
            agent=agent,
            canonical=canonical,
            action_hash=action_hash_of(gated, canonical),
            display_text=display_text(gated.tool, arguments, title=gated.title, describe=describe),
            policy=gated.policy,
            why=why if len(why) <= WHY_CHARS else f"{why[: WHY_CHARS - 1]}…",
            version=gated.version,
            created_at=now,
            expires_at=now + self.settings.request_ms,
            page=page,
        )
        detail = {"request": request.id, "user": user, "server": gated.server, "tool": gated.tool}
        return await self.shelf.open_request(
            request, self.settings.bounds, self._witness("approval.ask", caller, detail)
        )

    async def request(self, request_id: str) -> Request | None:
        return await self.shelf.request(request_id)

    async def grant(self, gated: Gated, canonical: bytes, *, caller: str) -> Request | None:
        """An approval that lets exactly this call of this caller through, once."""
        action = action_hash_of(gated, canonical)
        return await self.shelf.find_grant(caller, gated.server, gated.tool, action, self.now())

    async def unheard_refusal(self, gated: Gated, canonical: bytes, *, caller: str, call: str) -> Request | None:
        """A refusal of exactly this call that nobody waited for any more: this call hears of it, and no other."""
        action = action_hash_of(gated, canonical)
        return await self.shelf.hear_refusal(caller, gated.server, gated.tool, action, call=call, now=self.now())

    def grant_use(self, request: Request, call: str) -> GrantUse:
        return GrantUse(request.id, call, self.now())

    def expired(self, request: Request) -> bool:
        return self.now() >= request.expires_at

    async def page_challenge(self, request: Request) -> Issued:
        """A challenge over the request's own action hash, for the person it belongs to."""
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if self.expired(request):
            raise Refused(Reason.APPROVAL_EXPIRED)
        eligible = await self.approving(request.user, request.policy)
        challenge = self._new_challenge(
            user=request.user,
            server=request.server,
            tool=request.tool,
            canonical=request.canonical,
            eligible=eligible,
            text=request.display_text,
            action=request.action_hash,
            request=request.id,
        )
        challenge = msgspec.structs.replace(challenge, expires_at=min(challenge.expires_at, request.expires_at))
        return await self._issue(challenge, eligible, PAGE_BOUNDS)

    async def approve(self, request_id: str, evidence: object, *, by: str) -> Request:
        """Take a person's signature over a request's challenge; its call may pass, once."""
        request = await self.shelf.request(request_id)
        if request is None:
            raise Refused(Reason.CHALLENGE_UNKNOWN)
        if request.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        try:
            verified = await self._verify(evidence, request.id, request.tool, request.policy, request.action_hash)
        except Refused:
            # Another page may have been faster, with a challenge of its own.
            now_held = await self.shelf.request(request_id)
            if now_held is not None and now_held.state != "waiting":
                raise Refused(Reason.APPROVAL_DECIDED) from None
            raise
        facts = verified.facts | {"request": request.id}
        detail = {"request": request.id, "user": request.user, "credential": verified.credential.id}
        witness = self._witness("approval.approve", by, detail)
        return await self.shelf.approve_request(request.id, verified.use, facts, by, witness)

    async def refuse(self, request_id: str, *, by: str, note: str = "") -> Request:
        """Say no; the note reaches whoever called."""
        text = "".join(char if char.isprintable() or char == "\n" else " " for char in note)[:_NOTE_CHARS].strip()
        witness = self._witness("approval.refuse", by, {"request": request_id, "note": text})
        return await self.shelf.refuse_request(request_id, by, text, self.now(), witness)
