"""Devices that answer without a passkey, spoken for by the reference client of examples/device_client."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from callgate.approval import ApprovalPolicy, Gated, Request
from callgate.canonical import canonical
from callgate.gate import Quorum
from callgate.protocol import DEVICE, WEBAUTHN
from support.console import AGENT, ARGUMENTS, VERSION, Answer, Browsing, LiveConsole

TAKES_DEVICES = ApprovalPolicy("platform", methods=(WEBAUTHN, DEVICE))
CLIENT = Path(__file__).resolve().parents[2] / "examples" / "device_client" / "device.py"


def reference() -> ModuleType:
    """The client as anybody who copies it has it."""
    spec = importlib.util.spec_from_file_location("reference_device", CLIENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client = reference()


class Phone:
    """A device with a key of its own; what it sends can be bent before it is signed, and after."""

    def __init__(self, console: LiveConsole, user: str, name: str = "Pixel", gateway: str = "") -> None:
        self.console = console
        self.device = client.Device(gateway, console.origin, user, name, secrets.token_bytes(32).hex())
        # Its clock is the console's: a test moves both.
        self.device.now = self._now
        self._last = 0
        self.id = self.device.thumbprint

    def _now(self) -> int:
        self._last = max(int(self.console.clock() * 1000), self._last + 1)
        return self._last

    @classmethod
    async def made(cls, console: LiveConsole, user: str, name: str = "Pixel") -> Phone:
        """It knows the gateway, and is not enrolled."""
        return cls(console, user, name, (await console.get("/devices/v1")).json["gateway"])

    @classmethod
    async def enrolled(cls, console: LiveConsole, person: Browsing, name: str = "Pixel") -> Phone:
        phone = await cls.made(console, person.user, name)
        answer = await phone.enrol(person)
        assert answer.status == 200, answer.text
        return phone

    async def enrol(self, person: Browsing, line: str | None = None) -> Answer:
        """As the page does it, with the passkey of this person."""
        return await self.console.act("/devices/add", {"line": line or self.device.line()}, person)

    async def ask(self, what: str, request: str = "", **bend: Any) -> Answer:
        return await self.send(what, self.question(what, request) | bend)

    def question(self, what: str, request: str = "") -> dict[str, Any]:
        body = {"key": self.id, "request": request, "time": self._now()}
        signature = self.device.sign("ask", body | {"ask": what, "gateway": self.device.gateway})
        return body | {"signature": signature}

    async def send(self, what: str, body: object) -> Answer:
        return await self.console.post(f"/devices/v1/{what}", body, headers={"origin": None, "sec-fetch-site": None})

    async def waiting(self) -> list[str]:
        """The ids of the calls that it may answer."""
        return [one["request"] for one in (await self.ask("waiting")).json["waiting"]]

    async def call(self, request: Request) -> dict[str, Any]:
        answer = await self.ask("call", request.id)
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def signed(self, call: dict[str, Any], decision: str = "yes", **bend: Any) -> dict[str, Any]:
        """The body of an answer; `bend` changes what is signed."""
        said = {"decision": decision, "key": self.id, "time": self._now()}
        parts = {name: call[name] for name in ("actionHash", "challengeId", "nonce")}
        message = said | parts | {"gateway": self.device.gateway, "method": "device"} | bend
        purpose = message.pop("purpose", "answer")
        response = {name: message[name] for name in said} | {"signature": self.device.sign(purpose, message)}
        evidence = {"method": "device", "challengeId": call["challengeId"], "response": response}
        return {"request": call["request"], "evidence": evidence}

    async def answer(self, request: Request, decision: str = "yes") -> Answer:
        return await self.send("answer", self.signed(await self.call(request), decision))


def gated(policy: ApprovalPolicy = TAKES_DEVICES, tool: str = "delete_resource") -> Gated:
    return Gated("files", "urn:test:files", tool, policy, version=VERSION)


async def ask(
    console: LiveConsole,
    user: str = "anna",
    arguments: dict[str, Any] = ARGUMENTS,
    caller: str = "caller",
    **more: Any,
) -> Request:
    """A call of a tool that takes devices, which waits for this person, or for several."""
    wanted = gated(**more)
    return await console.approvals.ask(
        wanted, arguments, canonical(arguments), wanted.policy.people or user, caller=caller, agent=AGENT
    )


async def granted(console: LiveConsole, **more: Any) -> Request | None:
    return await console.approvals.grant(gated(**more), canonical(ARGUMENTS), caller="caller")


def several(*quorums: Quorum) -> ApprovalPolicy:
    return msgspec.structs.replace(TAKES_DEVICES, quorums=quorums)
