"""A shelf in process memory, for tests and benchmarks: nothing outlives the process, nobody else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from callgate.approval.memory_people import DAY_MS, KEEP_MS, Agenda, MemoryPeople
from callgate.approval.model import (
    Challenge,
    ChallengeUse,
    Credential,
    Request,
    RequestState,
    Session,
    Use,
)
from callgate.approval.storage import Bounds
from callgate.errors import Reason, Refused, Spent


class MemoryShelf(MemoryPeople):
    """The whole `Shelf` of storage.py; `witnesses` are those of everything that was done, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._challenges: dict[str, Challenge] = {}
        # Those neither consumed nor, as far as anyone has looked, expired: by user and in all.
        self._open: dict[str, set[str]] = {}
        self._open_in_all = 0
        self._expiring: Agenda[str] = Agenda()
        self._old_challenges: Agenda[str] = Agenda()
        self._requests: dict[str, Request] = {}
        self._old_requests: Agenda[str] = Agenda()
        self._identity: str | None = None

    async def add_challenge(self, challenge: Challenge, bounds: Bounds) -> None:
        self._clear_challenges(challenge.created_at)
        if len(self._open.get(challenge.user, ())) >= bounds.per_user or self._open_in_all >= bounds.in_all:
            raise Refused(Reason.APPROVAL_LIMIT)
        self._challenges[challenge.id] = challenge
        self._open.setdefault(challenge.user, set()).add(challenge.id)
        self._open_in_all += 1
        self._expiring.put(challenge.expires_at, challenge.id)

    def _clear_challenges(self, now: int) -> None:
        for key in self._expiring.due(now):
            challenge = self._challenges.get(key)
            if challenge is not None:
                self._close(challenge)
                self._old_challenges.put(challenge.expires_at + KEEP_MS + 1, key)
        for key in self._old_challenges.due(now):
            self._challenges.pop(key, None)

    def _close(self, challenge: Challenge) -> None:
        ours = self._open.get(challenge.user)
        if ours is None or challenge.id not in ours:
            return
        ours.remove(challenge.id)
        self._open_in_all -= 1
        if not ours:
            del self._open[challenge.user]

    async def challenge(self, challenge_id: str) -> Challenge | None:
        return self._challenges.get(challenge_id)

    async def look_up(self, challenge_id: str, credential_id: str) -> tuple[Challenge | None, Credential | None]:
        return self._challenges.get(challenge_id), self._credentials.get(credential_id)

    async def use(self, use: Use, witness: Any = None) -> None:
        if isinstance(use, ChallengeUse):
            self._consume(use)
        else:
            held = self._requests.get(use.request)
            if held is None or held.state != "approved" or held.expires_at <= use.at:
                raise Spent(Reason.APPROVAL_EXPIRED)
            self._requests[use.request] = replace(held, state="used", call=use.call)
        self._record(witness)

    def _consume(self, use: ChallengeUse) -> None:
        """§4.8, steps 13 and 14."""
        challenge = self._challenges.get(use.challenge)
        if challenge is None:
            raise Spent(Reason.CHALLENGE_UNKNOWN)
        if challenge.consumed_at is not None:
            raise Spent(Reason.CHALLENGE_CONSUMED)
        if challenge.expires_at <= use.at:
            raise Spent(Reason.CHALLENGE_EXPIRED)
        credential = self._credentials.get(use.credential)
        if credential is None or credential.revoked_at is not None:
            raise Spent(Reason.UNKNOWN_CREDENTIAL)
        if credential.counter > 0 and use.counter <= credential.counter:
            raise Spent(Reason.SIGNATURE_COUNTER_REGRESSION)
        self._challenges[use.challenge] = replace(challenge, consumed_at=use.at)
        self._close(challenge)
        self._credentials[use.credential] = replace(
            credential, counter=use.counter, last_used_at=use.at, backed_up=use.backed_up
        )

    async def open_request(self, request: Request, bounds: Bounds, witness: Any = None) -> Request:
        now = request.created_at
        for old in self._old_requests.due(now):
            self._requests.pop(old, None)
        live = [held for held in self._requests.values() if held.user == request.user and _open(held, now)]
        for held in live:
            if _call(held) == _call(request):
                return held
        if sum(1 for held in live if held.state == "waiting") >= bounds.requests_per_user:
            raise Refused(Reason.APPROVAL_LIMIT)
        self._requests[request.id] = request
        self._old_requests.put(request.expires_at + DAY_MS + 1, request.id)
        self._record(witness)
        return request

    async def find_grant(self, caller: str, server: str, tool: str, action_hash: bytes, now: int) -> Request | None:
        wanted = (caller, server, tool, action_hash)
        found = [
            held
            for held in self._requests.values()
            if held.state == "approved" and held.expires_at > now and _call(held) == wanted
        ]
        return min(found, key=lambda held: (held.created_at, held.id), default=None)

    async def hear_refusal(
        self, caller: str, server: str, tool: str, action_hash: bytes, *, call: str, now: int
    ) -> Request | None:
        wanted = (caller, server, tool, action_hash)
        found = [
            held
            for held in self._requests.values()
            if held.state == "refused" and held.call is None and held.expires_at > now and _call(held) == wanted
        ]
        if not found:
            return None
        heard = replace(min(found, key=lambda held: (held.created_at, held.id)), call=call)
        self._requests[heard.id] = heard
        return heard

    async def request(self, request_id: str) -> Request | None:
        return self._requests.get(request_id)

    async def requests(
        self, user: str | None = None, *, states: Sequence[RequestState] = (), limit: int = 100
    ) -> Sequence[Request]:
        found = [
            held
            for held in self._requests.values()
            if (user is None or held.user == user) and (not states or held.state in states)
        ]
        return sorted(found, key=lambda held: (held.created_at, held.id), reverse=True)[:limit]

    async def approve_request(
        self, request_id: str, use: ChallengeUse, evidence: dict[str, Any], by: str, witness: Any = None
    ) -> Request:
        held = self._waiting(request_id, use.at)
        self._consume(use)
        return self._decide(
            replace(held, state="approved", decided_at=use.at, decided_by=by, evidence=evidence), witness
        )

    async def refuse_request(self, request_id: str, by: str, note: str, at: int, witness: Any = None) -> Request:
        held = self._waiting(request_id, at)
        return self._decide(replace(held, state="refused", decided_at=at, decided_by=by, note=note), witness)

    def _waiting(self, request_id: str, now: int) -> Request:
        held = self._requests.get(request_id)
        if held is not None and held.state != "waiting":
            raise Spent(Reason.APPROVAL_DECIDED)
        if held is None or held.expires_at <= now:
            raise Spent(Reason.APPROVAL_EXPIRED)
        return held

    def _decide(self, decided: Request, witness: Any) -> Request:
        self._requests[decided.id] = decided
        self._record(witness)
        return decided

    async def add_session(self, session: Session) -> None:
        for old in [one.id for one in self._sessions.values() if one.expires_at <= session.created_at]:
            del self._sessions[old]
        self._sessions[session.id] = session

    async def session(self, session_id: bytes, now: int) -> Session | None:
        held = self._sessions.get(session_id)
        if held is None or held.expires_at <= now:
            return None
        # A passkey that was revoked while somebody signed in with it opens nothing.
        credential = self._credentials.get(held.credential)
        person = self._users.get(held.user)
        if credential is None or credential.revoked_at is not None or person is None:
            return None
        return replace(held, role=person.role)

    async def end_session(self, session_id: bytes) -> None:
        self._sessions.pop(session_id, None)

    async def identity(self, fresh: str) -> str:
        if self._identity is None:
            self._identity = fresh
        return self._identity

    def _forget_calls(self, user: str) -> None:
        """A consumed challenge stays known as consumed for as long as any other."""
        for challenge in [one for one in self._challenges.values() if one.user == user and one.consumed_at is None]:
            self._close(challenge)
            del self._challenges[challenge.id]
        for request in [one for one in self._requests.values() if one.user == user]:
            del self._requests[request.id]


def _open(request: Request, now: int) -> bool:
    return request.state in ("waiting", "approved") and request.expires_at > now


def _call(request: Request) -> tuple[str, str, str, bytes]:
    return request.caller, request.server, request.tool, request.action_hash


__all__ = ["MemoryShelf"]
