"""The story that `callgate demo` tells: six steps, each of which looks whether what it tells has happened."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from callgate.approval import Request
from callgate.cli.common import console
from callgate.cli.printing import fold_lines
from callgate.pinning.review.views import ToolView
from callgate_demo.play.users import CHANGING

if TYPE_CHECKING:
    from callgate.cli.printing import Line
    from callgate_demo.agent import CallResult, ScriptedAgent
    from callgate_demo.bank import Bank
    from callgate_demo.mail import Mail
    from callgate_demo.play.services import DemoServices
    from callgate_demo.play.users import DemoUser

T = TypeVar("T")

SERVERS: Final = {
    "files": ("list_files", "read_file"),
    "mail": ("list_mail", "read_mail", "search_mail"),
    "bank": ("show_account", "transfer"),
}
TOOLS: Final = frozenset((server, tool) for server, tools in SERVERS.items() for tool in tools)
# The gateway's own, which tells an agent that something waits.
_PENDING: Final = "callgate_pending"
_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
_FINDINGS: Final = 2
# Enough of a call's id to be the only one that begins so.
_CALL_CHARS: Final = 20

STEPS: Final = 6
_WIDTH: Final = 78
_INDENT: Final = 10
_NARROWEST: Final = 20
# Who speaks or acts, in a column of their own.
_WHO: Final = {"agent": "cyan", "gate": "magenta", "you": "bold yellow", "key": "bold yellow", "server": "blue"}


class StepFailed(Exception):
    """A step that did not come about: what was expected, and what was there."""


class Payment(NamedTuple):
    """What the agent wants to transfer, and where it has that from."""

    payee: str
    iban: str
    amount: str

    @property
    def compact_iban(self) -> str:
        return self.iban.replace(" ", "")

    def __str__(self) -> str:
        return f"{self.amount} EUR to {self.iban}"


class Participants(NamedTuple):
    """The terminal, the gateway's store, the agent, the person who decides, and two of the servers' folders."""

    say: StoryPrinter
    services: DemoServices
    agent: ScriptedAgent
    user: DemoUser
    mail: Mail
    bank: Bank
    state: Path


class Story:
    """Played once, from the first step to the last; raises StepFailed if a step does not happen."""

    def __init__(self, parts: Participants) -> None:
        from callgate_demo.files import LANDLORD
        from callgate_demo.mail import FRIEND, THIEF

        self._parts = parts
        self._say = parts.say
        self._rent = Payment("Linde Homes", LANDLORD, "850.00")
        self._theft = Payment("Linde Homes", THIEF, "4900.00")
        self._tickets = Payment("Lena Ortiz", FRIEND, "42.00")
        # Those that wait for a person; none outlives the story.
        self._calls: list[asyncio.Task[CallResult]] = []

    async def play(self) -> None:
        self._parts.mail.set_changed(changed=False)
        try:
            await self._connect()
            await self._work()
            await self._change()
            theft, request = await self._stop()
            approved = await self._decide(theft, request)
            await self._prove(approved)
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    # -- 1 --

    async def _connect(self) -> None:
        say, services = self._say, self._parts.services
        say.step(1, "Three servers connect. Nobody has reviewed their tools.")
        seen = await self._visible()
        unseen = "the agent sees no tool that nobody approved"
        expect(not seen or await services.knows_servers(), unseen, names_text(seen))
        tools = await poll(services.tools, lambda tools: tools.keys() >= TOOLS)
        expect(tools.keys() >= TOOLS, "all seven tools wait for review", f"the gateway met {names_text(set(tools))}")
        approved = {name for name, one in tools.items() if one.state == "approved"}
        expect(seen <= approved, unseen, names_text(seen - approved))
        for server, names in SERVERS.items():
            say.says("server", f"{server}: {', '.join(names)}")
        say.says("agent", f"asks what tools there are, and sees {len(seen) or 'none'} of them.")
        say.says("gate", "hides every tool until a person has read what it says of itself.")
        say.plain()
        await self._parts.user.review(TOOLS)

    async def _visible(self) -> set[tuple[str, str]]:
        """Every tool that the agent can see now."""
        lists = await asyncio.gather(*map(self._listed, SERVERS))
        named = zip(SERVERS, lists, strict=True)
        return {(server, tool) for server, tools in named for tool in tools if tool != _PENDING}

    async def _listed(self, server: str) -> list[str]:
        """The list of one server; while a gateway starts on a busy machine it may refuse for want of its store."""
        from callgate_demo.agent import ListingFailed

        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return await self._parts.agent.tools(server)
            except ListingFailed:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    # -- 2 --

    async def _work(self) -> None:
        say, agent, services = self._say, self._parts.agent, self._parts.services
        say.step(2, "The agent works: reading needs nobody.")
        approved = {name for name, one in (await services.tools()).items() if one.state == "approved"}
        # A decision is followed within a second.
        seen = await poll(self._visible, lambda seen: seen == approved)
        expect(seen == approved, f"the agent sees {names_text(approved)}", names_text(seen))
        say.says("agent", f"sees {len(seen)} tools now, and goes through files and mail:")
        asked = await services.requests()
        rent = await agent.call("files", "read_file", name="rent.txt")
        expect(self._rent.iban in rent.text, "the agent reads rent.txt", rent.text)
        say.note(f"rent.txt: {self._rent}")
        inbox = await agent.call("mail", "list_mail")
        expect(inbox.done and inbox.text.startswith("1. "), "the agent lists the inbox", inbox.text)
        for line in inbox.text.splitlines():
            say.note(f"mail {line}")
        for number in ("1", "2", "3"):
            mail = await agent.call("mail", "read_mail", number=number)
            expect(mail.done, f"the agent reads mail {number}", mail.text)
        expect(await services.requests() == asked, "reading asks nobody", "somebody was asked")
        say.says("gate", "lets it all pass, and notes that strangers wrote the mails.")
        say.same("callgate audit list")

    # -- 3 --

    async def _change(self) -> None:
        from callgate.cli.tools.diff import pieces

        say = self._say
        say.step(3, "A server changes a tool behind your back.")
        before = await self._visible()
        if CHANGING not in before:
            say.says("gate", "keeps search_mail blocked, as you decided. Whatever it says now, nobody reads it.")
            return
        self._parts.mail.set_changed(changed=True)
        say.says("server", "mail: gives search_mail another description.")
        seen = await self._visible()
        expect(seen == before - {CHANGING}, "search_mail vanishes from the agent's list", names_text(seen))
        view = await poll(self._changing, lambda view: view.state == "changed")
        expect(view.state == "changed" and view.difference is not None, "search_mail counts as changed", view.state)
        assert view.difference is not None
        say.says("gate", "takes it from the agent's list at once, and keeps the difference:")
        say.lines(pieces(view.difference.description))
        for finding in view.findings[:_FINDINGS]:
            say.note(f"found in it: {finding.what}")
        say.same("callgate tools diff --server mail --tool search_mail")
        say.plain()
        await self._parts.user.judge(CHANGING)
        await self._judged()

    async def _changing(self) -> ToolView:
        return (await self._parts.services.tools())[CHANGING]

    async def _judged(self) -> None:
        say, agent = self._say, self._parts.agent
        if (await self._changing()).state == "approved":
            say.says("gate", "shows it to the agent again, with its new text: you approved that.")
            return
        answer = await poll(lambda: agent.call(*CHANGING, word="rent"), lambda answer: answer.reason == "tool_blocked")
        expect(answer.reason == "tool_blocked", "a call of search_mail is refused", answer.reason or answer.text)
        say.says("agent", "tries search_mail all the same.")
        say.says("gate", f"refuses the call: {answer.reason}.")

    # -- 4 --

    async def _stop(self) -> tuple[asyncio.Task[CallResult], Request]:
        say, bank = self._say, self._parts.bank
        say.step(4, "A mail tells the agent to send money, and it obeys.")
        await self._parts.user.enrol()
        before, asked = len(bank.transfers()), await self._parts.services.requests()
        say.says("agent", f"pays the rent: {self._rent}")
        answer = await self._pay(self._rent)
        expect(answer.done and self._left(before) == [self._rent.compact_iban], "the rent is paid unasked", answer.text)
        expect(await self._parts.services.requests() == asked, "nobody is asked about the rent", "somebody was")
        say.says("gate", "lets it pass: this account is in a file of your own.")
        say.says("agent", f"does what mail 3 says: {self._theft}")
        theft, request = await self._ask(self._theft)
        expect(
            self._left(before) == [self._rent.compact_iban],
            "no money leaves while the call waits",
            str(self._left(before)),
        )
        say.says("gate", "stops the call and asks you:")
        for line in _why(request.why):
            say.note(line)
        say.same("callgate approvals list")
        return theft, request

    def _left(self, before: int) -> list[str]:
        """The accounts that money went to since."""
        return [iban for _, iban, _ in self._parts.bank.transfers()[before:]]

    async def _pay(self, payment: Payment) -> CallResult:
        return await self._parts.agent.call(
            "bank", "transfer", payee=payment.payee, iban=payment.compact_iban, amount=payment.amount
        )

    async def _ask(self, payment: Payment) -> tuple[asyncio.Task[CallResult], Request]:
        """Let the agent try, until the person is asked about it."""
        known = await self._parts.services.requests()
        call = asyncio.create_task(self._pay(payment))
        self._calls.append(call)
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            request = await self._parts.services.waiting(known)
            if request is not None and payment.compact_iban.encode() in request.canonical:
                return call, request
            if call.done():
                answer = await call
                raise StepFailed(f"the transfer to {payment.iban} waits for a person; instead: {answer.text}")
            await asyncio.sleep(_LOOK_SECONDS)
        raise StepFailed(f"a person is asked about the transfer to {payment.iban}; instead: nobody was")

    # -- 5 --

    async def _decide(self, theft: asyncio.Task[CallResult], request: Request) -> Payment | None:
        say = self._say
        say.step(5, "You decide, with your passkey.")
        stolen = await self._settle(self._theft, theft, request, advised="refuse")
        say.plain()
        say.says("agent", f"does what Lena's mail says: {self._tickets}")
        say.says("gate", "cannot know that Lena is a friend: this account, too, is only in a mail.")
        call, request = await self._ask(self._tickets)
        paid = await self._settle(self._tickets, call, request, advised="approve")
        say.says("server", f"bank: {self._parts.bank.balance()} EUR are left.")
        return self._tickets if paid else self._theft if stolen else None

    async def _settle(
        self, payment: Payment, call: asyncio.Task[CallResult], request: Request, *, advised: str
    ) -> bool:
        """Wait for the decision and look what came of it; whether it was an approval."""
        say = self._say
        before = len(self._parts.bank.transfers())
        decided = await self._parts.user.decide(request, advised=advised)
        answer = await call
        gone = payment.compact_iban in self._left(before)
        if decided is not None and decided.state in ("approved", "used"):
            expect(answer.done and gone, "the approved transfer goes through, once", answer.text)
            say.says("gate", f"checks the signature over exactly this call, and lets it pass: {answer.text}")
            return True
        expect(not answer.done and not gone, "the transfer does not happen", answer.text)
        refused = decided is not None and decided.state == "refused"
        expect(answer.reason == "approval_refused" or not refused, "the agent is told that you refused", answer.reason)
        say.says("gate", f"tells the agent {answer.reason}. Not a cent has left.")
        return False

    # -- 6 --

    async def _prove(self, approved: Payment | None) -> None:
        say, services = self._say, self._parts.services
        say.step(6, "What happened can be proved, to somebody who has only a file.")
        payment = approved or self._rent
        call = await services.call_of("transfer", payment.compact_iban)
        expect(call is not None, "the transfer is on record", "there is no record of it")
        assert call is not None
        receipt = self._parts.state / "receipt.json"
        await services.receipt(call, receipt)
        if approved is None:
            say.says("you", "approved nothing, so no signature is on record; the rent was let through.")
        printed = await self._command("audit", "verify", "--receipt", str(receipt))
        expect(printed.startswith("The receipt holds"), "the receipt verifies offline", printed)
        signed = "The approval holds" in printed
        expect(signed == (approved is not None), "the receipt has the signature of whoever approved", printed)
        say.says("gate", "writes a receipt, which needs no gateway to be checked:")
        for line in printed.splitlines():
            if line.startswith(("The ", "  verified      what was signed")):
                say.note(" ".join(line.split()))
        short = call[:_CALL_CHARS]
        say.same(f"callgate audit receipt {short} -o receipt.json", "callgate audit verify --receipt receipt.json")
        say.says("gate", "keeps a log that nobody can change unnoticed:")
        log = await self._command("audit", "verify", "-c", str(self._parts.state / "callgate.toml"))
        expect(log.startswith("The log holds"), "the log verifies", log)
        say.note(log.partition(",")[0] + ".")
        say.same("callgate audit verify")

    async def _command(self, *words: str) -> str:
        """The command itself, as anybody types it: what it prints."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CALLGATE_")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "callgate", *words),
            env=environ | {"COLUMNS": "240"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return (out if process.returncode == 0 else err).decode("utf-8", "replace").strip()


async def poll(look: Callable[[], Awaitable[T]], right: Callable[[T], bool]) -> T:
    """What `look` finds, as soon as it is right or the time is over: the gateway follows changes within a second."""
    deadline = time.monotonic() + _SECONDS
    while not right(found := await look()) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    return found


def _why(text: str) -> list[str]:
    """The sentence of the rule, and what is said of the account; the page has the rest."""
    lines = text.splitlines()
    return (
        [lines[0].partition(" (rule:")[0], *(line for line in lines[1:] if line.startswith("iban ="))] if lines else []
    )


def expect(so: bool, what: str, instead: str) -> None:
    if not so:
        raise StepFailed(f"{what}; instead: {instead}")


def names_text(names: set[tuple[str, str]]) -> str:
    return ", ".join(sorted(f"{server}/{tool}" for server, tool in names)) or "none"


# -- the terminal ----------------------------------------------------------------------------------------------


class StoryPrinter:
    """The terminal. Text is wrapped at 80 columns; commands and links never are, or they could not be pasted."""

    def __init__(self) -> None:
        self._out = console()
        self._width = min(_WIDTH, self._out.width)

    def step(self, number: int, title: str) -> None:
        self._print(f"\n[bold]{number}/{STEPS}  {title}[/]\n")

    def says(self, who: str, text: str) -> None:
        """What somebody does, behind their name."""
        self._column(who, _WHO[who], text)

    def note(self, text: str) -> None:
        """Beside the story, in the column of the texts."""
        self._column("", "", text)

    def _column(self, who: str, style: str, text: str) -> None:
        room = max(_NARROWEST, self._width - _INDENT)
        for line in textwrap.wrap(text, room, break_on_hyphens=False) or [""]:
            self._whole(Text.assemble("  ", (f"{who:<{_INDENT - 2}}", style), line))
            who = ""

    def plain(self, text: str = "") -> None:
        self._print(Text(text))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        for name, value in facts:
            self._whole(Text.assemble("  ", (f"{name:<9}", "bold"), value))

    def link(self, url: str) -> None:
        self._whole(Text(f"          {url}", style="underline"))

    def same(self, *commands: str) -> None:
        """The commands that do or show the same."""
        for command in commands:
            self._whole(Text.assemble("          ", ("$ ", "dim"), (command, "green")))

    def paste(self, command: str) -> None:
        """On a line of its own, with nothing before it."""
        self._whole(Text(command, style="green"))

    def lines(self, lines: Iterable[Line]) -> None:
        for text in fold_lines(lines, self._width):
            self._whole(text)

    def failed(self, text: str) -> None:
        self._print(f"\n[bold red]This did not happen:[/] {_escaped(text)}")

    def _whole(self, text: RenderableType) -> None:
        self._out.print(text, soft_wrap=True)
        sys.stdout.flush()

    def _print(self, what: RenderableType) -> None:
        self._out.print(what, width=self._width)
        sys.stdout.flush()


def _escaped(text: str) -> str:
    return escape(text)
