"""Verified approval by itself: the steps of SEP-2672 §4.8 beside bare P-256, in memory and on durable stores."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import gateway
import pgserver
from environments import Say
from processes import Unavailable, cpu_seconds

if TYPE_CHECKING:
    from callgate.approval import Approvals, Gated
    from callgate.approval.storage import ApprovalRepository

STORES = ("sqlite", "postgres")
CONCURRENCY = (1, 64)
USER = "ann"
ORIGIN = "http://localhost"
TOOL = "delete_resource"
ARGUMENTS = {"resourceId": "abc123"}
SCHEMA = {
    "type": "object",
    "required": ["resourceId"],
    "additionalProperties": False,
    "properties": {"resourceId": {"type": "string", "minLength": 1}},
}
LABELS = {
    "raw": "bare P-256 verification, key loaded (cryptography)",
    "steps": "Callgate, steps 1 to 14, store in memory",
    "webauthn": "webauthn package alone: no state, no single use",
    "challenge": "Callgate, challenge issued, store in memory",
}


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    each: int
    # Durable operations, by concurrency: one at a time each waits for its own commit.
    durable: Mapping[int, int]


FULL = Plan(rounds=7, each=1_500, durable={1: 300, 64: 4_000})
QUICK = Plan(rounds=3, each=500, durable={1: 60, 64: 800})


class Ceremonies:
    """One person with one passkey that does not count, so that approvals may overtake each other."""

    def __init__(self, shelf: ApprovalRepository) -> None:
        from callgate.approval import ApprovalBounds, Approvals, ApprovalSettings, Gated, RelyingParty
        from callgate.canonical import canonical
        from callgate.sdk.authenticators.software import SoftwareAuthenticator

        # Challenges live long here: signing thousands of them by software takes its time and is not measured.
        settings = ApprovalSettings(challenge_ms=3_600_000, bounds=ApprovalBounds(per_user=10**9, in_all=10**9))
        self.approvals: Approvals = Approvals(shelf, RelyingParty("localhost", origins=(ORIGIN,)), settings)
        self.gated: Gated = Gated("bench", "urn:uuid:2f1e0c52-5cf0-4a1c-9d3a-0d5a8c0b7a11", TOOL, input_schema=SCHEMA)
        self.canonical = canonical(ARGUMENTS)
        self._authenticator = SoftwareAuthenticator(ORIGIN, counting=False)

    async def enrol(self) -> None:
        ticket = await self.approvals.ticket(USER, by="bench")
        begun = await self.approvals.begin_enrolment(ticket)
        await self.approvals.finish_enrolment(self._authenticator.create(begun["options"]))

    async def issue(self) -> dict[str, Any]:
        issued = await self.approvals.challenge(self.gated, ARGUMENTS, self.canonical, USER)
        return issued.result

    def sign(self, issued: Mapping[str, Any]) -> dict[str, Any]:
        response = self._authenticator.get(issued["requestOptions"])
        return {"method": "webauthn", "challengeId": issued["challengeId"], "response": response}

    async def approve(self, evidence: dict[str, Any]) -> None:
        """Steps 1 to 12, then 13 and 14."""
        verified = await self.approvals.verify(self.gated, ARGUMENTS, self.canonical, evidence)
        await self.approvals.shelf.use(verified.use)


def _bare(each: int) -> Callable[[], None]:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256

    key = ec.generate_private_key(ec.SECP256R1())
    # As much as an assertion has to sign: authenticator data and the hash of the client data.
    message, algorithm = bytes(69), ec.ECDSA(SHA256())
    signature, verify = key.sign(message, algorithm), key.public_key().verify

    def run() -> None:
        for _ in range(each):
            verify(signature, message, algorithm)

    return run


async def _package(ceremonies: Ceremonies, signed: list[tuple[dict[str, Any], dict[str, Any]]]) -> Callable[[], None]:
    from webauthn import verify_authentication_response

    from callgate.approval.action import from_base64url

    (passkey,) = await ceremonies.approvals.shelf.credentials(USER)
    known = [(from_base64url(one["requestOptions"]["challenge"]), evidence["response"]) for one, evidence in signed]

    def run() -> None:
        for challenge, response in known:
            verify_authentication_response(
                credential=response,
                expected_challenge=challenge,
                expected_rp_id="localhost",
                expected_origin=ORIGIN,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.counter,
                require_user_verification=True,
            )

    return run


async def _round(ceremonies: Ceremonies, turn: int, each: int) -> dict[str, float]:
    """Operations a CPU second of each subject, one after the other, in an order that rotates with the round."""
    issued = [await ceremonies.issue() for _ in range(each)]
    signed = [(one, ceremonies.sign(one)) for one in issued]
    bare, package = _bare(each), await _package(ceremonies, signed)

    async def run_bare() -> None:
        bare()

    async def run_package() -> None:
        package()

    async def steps() -> None:
        for _, evidence in signed:
            await ceremonies.approve(evidence)

    async def challenges() -> None:
        for _ in range(each):
            await ceremonies.issue()

    subjects: dict[str, Callable[[], Awaitable[None]]] = {
        "raw": run_bare,
        "steps": steps,
        "webauthn": run_package,
        "challenge": challenges,
    }
    names = list(subjects)
    found: dict[str, float] = {}
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        gc.collect()
        before = time.process_time()
        await subjects[name]()
        found[name] = each / (time.process_time() - before)
    return found


async def _in_memory(plan: Plan) -> dict[str, Any]:
    from callgate.store import MemoryStore, SqlApprovals

    rounds: list[dict[str, float]] = []
    for turn in range(plan.rounds + 1):
        ceremonies = Ceremonies(SqlApprovals(MemoryStore()))
        await ceremonies.enrol()
        rounds.append(await _round(ceremonies, turn, plan.each))
    # The first round fills caches.
    rounds = rounds[1:]
    return {
        name: {
            "label": label,
            "per_cpu_second": round(median(one[name] for one in rounds)),
            "vs_raw": round(median(one[name] / one["raw"] for one in rounds), 3),
        }
        for name, label in LABELS.items()
    }


async def _spread(count: int, workers: int, work: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(workers)))


async def _durable(ceremonies: Ceremonies, count: int, workers: int, store_pid: int | None) -> dict[str, Any]:
    issued: list[dict[str, Any]] = []

    async def issue(_: int) -> None:
        issued.append(await ceremonies.issue())

    began = time.perf_counter()
    await _spread(count, workers, issue)
    issuing = time.perf_counter() - began
    evidence = [ceremonies.sign(one) for one in issued]

    async def approve(number: int) -> None:
        await ceremonies.approve(evidence[number])

    store_cpu, cpu, began = cpu_seconds(store_pid), time.process_time(), time.perf_counter()
    await _spread(count, workers, approve)
    wall, cpu, store_cpu = time.perf_counter() - began, time.process_time() - cpu, cpu_seconds(store_pid) - store_cpu
    return {
        "challenges_per_second": round(count / issuing),
        "approvals_per_second": round(count / wall),
        "cpu_us_per_approval": round(cpu / count * 1e6, 1),
        "store_cpu_us_per_approval": round(store_cpu / count * 1e6, 1) if store_pid else None,
    }


async def _on_store(url: str, store_pid: int | None, plan: Plan) -> dict[str, Any]:
    from callgate.store import SqlApprovals, Store

    store = Store.open(url)
    try:
        ceremonies = Ceremonies(SqlApprovals(store))
        await ceremonies.enrol()
        await _durable(ceremonies, 64, 64, None)
        return {
            str(workers): await _durable(ceremonies, plan.durable[workers], workers, store_pid)
            for workers in CONCURRENCY
        }
    finally:
        await store.close()


def measure(scratch: Path, step: Say, *, quick: bool) -> dict[str, Any]:
    try:
        gateway.check_installed()
    except Unavailable as why:
        return {"memory": {"status": "unavailable", "reason": str(why)}}
    plan = QUICK if quick else FULL
    step("approval, store in memory")
    rows: dict[str, Any] = {"memory": {"status": "ok", "subjects": asyncio.run(_in_memory(plan))}}
    for store in STORES:
        folder = scratch / f"approval-{store}"
        folder.mkdir(parents=True, exist_ok=True)
        step(f"approval, durable on {store}")
        with ExitStack() as stack:
            try:
                database = pgserver.start(stack, folder / "pgdata") if store == "postgres" else None
                url = database.url if database else f"sqlite:///{(folder / 'approval.db').as_posix()}"
                found = asyncio.run(_on_store(url, database.pid if database else None, plan))
                rows[store] = {"status": "ok", "concurrency": found}
            except Unavailable as why:
                rows[store] = {"status": "unavailable", "reason": str(why)}
    return rows
