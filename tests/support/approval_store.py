"""The store of verified approval for tests: what to put on them, and many processes that reach for the same thing.

Run as a program, this is one of those processes: `python approval_store.py URL`, with the jobs on stdin.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from callgate.approval.delegation import Delegation, DelegationUse, GrantCondition, GrantedAgent, GrantTerms
from callgate.approval.model import (
    ApprovalBounds,
    ApprovalPolicy,
    Challenge,
    ChallengeUse,
    ConsoleSession,
    Credential,
    GrantUse,
    Registration,
    Request,
    Ticket,
    User,
)
from callgate.approval.storage import ApprovalRepository
from callgate.errors import Refused
from callgate.store import DECISION, AuditRow, SqlApprovals, Store
from support import racing
from support.memory import bodies

NOW: Final = 1_800_000_000_000
SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE
BOUNDS: Final = ApprovalBounds()
_SIGNED: Final = itertools.count()


class Kept:
    """A shelf, and what was written beside it."""

    def __init__(self, shelf: ApprovalRepository, store: Store, url: str) -> None:
        self.shelf = shelf
        self.store = store
        self.url = url

    @property
    def witnesses(self) -> list[str]:
        """The audit rows of everything that was done, in order."""
        return [body.decode() for body in bodies(self.store)]


def witness(said: str) -> AuditRow:
    return AuditRow(DECISION, NOW, "call", "srv", "tool", "allow", None, said.encode(), b"seal" * 9)


def user(name: str = "ada") -> User:
    return User(name, name.title(), sha256(name.encode("utf-8", "surrogatepass")).digest(), NOW)


def credential(key: str = "key", **changes: Any) -> Credential:
    plain = Credential(
        id=key,
        user="ada",
        handle=sha256(b"ada").digest(),
        public_key=b"\xa5cose\x00\xff" + key.encode("utf-8", "surrogatepass"),
        counter=0,
        transports=("usb", "hybrid"),
        name="a key",
        aaguid="00000000-0000-0000-0000-000000000000",
        attestation="none",
        backup_eligible=True,
        backed_up=False,
        created_at=NOW,
    )
    return replace(plain, **changes)


def challenge(number: object = 1, **changes: Any) -> Challenge:
    plain = Challenge(
        id=f"challenge-{number}",
        user="ada",
        server="srv",
        tool="tool",
        canonical=b'{"a":1}',
        nonce=b"n\x00" * 16,
        action_hash=b"h" * 32,
        allowed=("key", "other"),
        display_text="Do it: ünï\u202ecode",
        created_at=NOW,
        expires_at=NOW + MINUTE,
    )
    return replace(plain, **changes)


def ticket(secret: str = "ticket", **changes: Any) -> Ticket:
    plain = Ticket(
        hash=sha256(secret.encode()).digest(),
        user="ada",
        purpose="enrol",
        by="operator",
        created_at=NOW,
        expires_at=NOW + 60 * MINUTE,
    )
    return replace(plain, **changes)


def registration(number: object = 1, **changes: Any) -> Registration:
    plain = Registration(f"registration-{number}".encode(), "ada", created_at=NOW, expires_at=NOW + 5 * MINUTE)
    return replace(plain, **changes)


def request(number: object = 1, **changes: Any) -> Request:
    plain = Request(
        id=f"request-{number}",
        user="ada",
        server="srv",
        tool="tool",
        caller="agent",
        agent={"name": "an agent", "version": "1\x00"},
        canonical=b'{"a":1}',
        action_hash=b"h" * 32,
        display_text="Do it",
        policy=ApprovalPolicy(require_counter=True),
        why="because",
        version="v1",
        created_at=NOW,
        expires_at=NOW + 10 * MINUTE,
    )
    return replace(plain, **changes)


def session(secret: str = "cookie", **changes: Any) -> ConsoleSession:
    plain = ConsoleSession(sha256(secret.encode()).digest(), "ada", "key", "csrf", NOW, NOW + 8 * 60 * MINUTE)
    return replace(plain, **changes)


def use(number: object = 1, counter: int = 0, **changes: Any) -> ChallengeUse:
    plain = ChallengeUse(f"challenge-{number}", "key", counter, NOW + SECOND)
    return replace(plain, **changes)


def delegation(number: object = 1, *, key: str = "key", **changes: Any) -> Delegation:
    """At most 3 transfers to one account, 100 in sum, for a day."""
    terms = GrantTerms(
        id=f"grant-{number}",
        person="ada",
        agent=GrantedAgent("api-key", f"agent-{number}", "0123456789ab"),
        server="srv",
        server_id="deployment/srv#1",
        tool="transfer",
        tool_hash="ab" * 32,
        arguments=(GrantCondition("to", "equals", "DE-1"), GrantCondition("amount", "at_most", "60")),
        calls=3,
        begins=NOW,
        ends=NOW + DAY,
        sum_of="amount",
        sum_at_most="100",
    )
    return Delegation(replace(terms, **changes), key, NOW, {"method": "webauthn"})


async def delegate(shelf: ApprovalRepository, new: Delegation) -> None:
    """A grant as it is signed, its challenge used up."""
    name, person = f"for {new.terms.id}, {next(_SIGNED)}", new.terms.person
    await shelf.add_challenge(challenge(name, user=person), BOUNDS)
    await shelf.add_delegation(new, use(name, credential=new.credential))


async def enrol(
    shelf: ApprovalRepository, new: Credential, codes: Sequence[bytes] = (), *, known: bool = False
) -> None:
    """A person, if need be, and a passkey of theirs, by the front door. `known`: the person is there already."""
    if not known and await shelf.user(new.user) is None:
        await shelf.add_user(user(new.user))
    allowed = ticket(f"for {new.id} of {new.user}", user=new.user)
    begun = registration(f"for {new.id} of {new.user}", user=new.user)
    await shelf.add_ticket(allowed)
    await shelf.begin_registration(begun, BOUNDS, ticket=allowed.hash, now=NOW)
    await shelf.finish_registration(begun.challenge, new, codes, now=NOW)


def race(url: str, jobs: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    """Let processes begin at once; what each job came to: `done`, or the reason it was refused."""
    return [end for ends in racing.race(__file__, url, jobs) for end in ends]


async def _do(shelf: ApprovalRepository, job: dict[str, Any]) -> str:
    kind, number = job["do"], job.get("number", 1)
    try:
        if kind == "use":
            await shelf.use(
                use(number, job.get("counter", 0), credential=job.get("key", "key")), witness(f"use {number}")
            )
        elif kind == "grant":
            await shelf.use(GrantUse(f"request-{number}", "call", NOW + SECOND), witness(f"grant {number}"))
        elif kind == "delegated":
            taken = DelegationUse(f"grant-{number}", job.get("amount", 0), job.get("at", NOW + SECOND))
            await shelf.use(taken, lambda left: witness(f"{json.dumps(left)} {number}"))
        elif kind == "revoke_grant":
            await shelf.revoke_delegation(f"grant-{number}", NOW + SECOND, "ada", witness(f"revoke {number}"))
        elif kind == "begin":
            await shelf.begin_registration(registration(number), BOUNDS, ticket=ticket().hash, now=NOW)
        elif kind == "finish":
            await shelf.finish_registration(
                registration().challenge,
                credential(f"key-{number}"),
                [b"c"],
                now=NOW,
                witness=witness(f"finish {number}"),
            )
        elif kind == "recover":
            await shelf.use_recovery_code("ada", b"code", ticket(f"recovered-{number}"), witness("recovered"))
        elif kind == "open":
            return (await shelf.open_request(request(number), BOUNDS, witness("opened"))).id
        elif kind == "approve":
            await shelf.approve_request("request-1", use(number), {"by": number}, "ada", witness("approved"))
        elif kind == "refuse":
            await shelf.refuse_request("request-1", "ada", "no", NOW + SECOND, witness("refused"))
        elif kind == "sign":
            # Passkey and challenge are named after whoever has them; `as` is the person, who may have two.
            key, who = job["key"], job["as"]
            evidence = {"user": who, "key": key}
            used = use(f"{number}-{key}", credential=key)
            await shelf.approve_request(f"request-{number}", used, evidence, who, witness(f"sign {number}"))
        elif kind == "no":
            await shelf.refuse_request(f"request-{number}", job["as"], "no", NOW + SECOND, witness(f"no {number}"))
        elif kind == "revoke":
            await shelf.revoke_credential(job["key"], NOW + SECOND, witness(f"revoke {number}"))
        elif kind == "demote":
            await shelf.set_role(job["as"], "viewer", witness(f"revoke {number}"), at=NOW + SECOND)
        elif kind == "begin with":
            begun = registration(number, user=job["as"])
            await shelf.begin_registration(begun, BOUNDS, ticket=ticket(str(number)).hash, now=NOW)
        elif kind == "finish with":
            new = credential(f"new-{number}", user=job["as"])
            challenged = registration(number).challenge
            await shelf.finish_registration(challenged, new, [], now=NOW, witness=witness(f"finish {number}"))
        elif kind == "add":
            await shelf.add_challenge(challenge(number, user=job["user"]), ApprovalBounds(**job["bounds"]))
        elif kind == "identity":
            return await shelf.identity(str(number))
        else:
            raise ValueError(kind)
    except Refused as refused:
        return refused.reason.value
    return "done"


async def _main(url: str) -> None:
    store = Store.open(url, busy_seconds=30)
    shelf = SqlApprovals(store)
    # The first use of a connection is slow; it is not what the race is about.
    await shelf.users()
    print("ready", flush=True)
    jobs = json.loads(sys.stdin.readline())
    print(json.dumps(await asyncio.gather(*(_do(shelf, job) for job in jobs))), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
