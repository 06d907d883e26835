"""Who decides in the demo: a person at the console or the keyboard, or, with --auto, a software key."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from callgate.approval import Request
from callgate.approval.display import escape
from callgate.cli.links import approval_link, enrolment_link
from callgate.errors import Refused
from callgate.pinning.review.views import ToolView
from callgate_demo.play.services import PERSON, DemoServices

if TYPE_CHECKING:
    from callgate_demo.play.story import StoryPrinter

T = TypeVar("T")
Act = Callable[[], Awaitable[None]]

# Tools that change nothing can be approved with one key; this one is read first.
TRANSFER: Final = ("bank", "transfer")
# The story goes on without this one, which is about to change anyway.
CHANGING: Final = ("mail", "search_mail")
WHY_BLOCKED: Final = "It tells the agent to send files away, and to keep quiet about it."
WHY_REFUSED: Final = "I know nobody with this account."
_KEY_SECONDS: Final = 0.3


class SoftwareUser:
    """Nobody: a software key that signs what the story wants signed. It proves nothing but that the gate works."""

    def __init__(self, services: DemoServices, console: str, say: StoryPrinter) -> None:
        from callgate.sdk.authenticators.software import SoftwareAuthenticator

        self._services = services
        self._say = say
        self._key = SoftwareAuthenticator(console)

    async def review(self, wanted: frozenset[tuple[str, str]]) -> None:
        tools = await self._services.tools()
        await self._services.approve([one for name, one in tools.items() if name in wanted and one.state != "approved"])
        self._say.says("key", "approves them, as a person would who has read them.")

    async def enrol(self) -> None:
        approvals = self._services.approvals
        begun = await approvals.begin_enrolment(await self._services.ticket())
        await approvals.finish_enrolment(self._key.create(begun["options"]), name="Software key of the demo")

    async def judge(self, tool: tuple[str, str]) -> None:
        self._say.says("key", "blocks it.")
        await self._services.block((await self._services.tools())[tool], WHY_BLOCKED)

    async def decide(self, request: Request, *, advised: str) -> Request | None:
        approvals = self._services.approvals
        if advised == "refuse":
            self._say.says("key", f"refuses. {WHY_REFUSED}")
            return await approvals.refuse(request.id, by=PERSON, note=WHY_REFUSED)
        self._say.says("key", "approves, and signs exactly this call.")
        issued = await approvals.page_challenge(request)
        response = self._key.get(issued.result["requestOptions"])
        evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
        return await approvals.approve(request.id, evidence, by=PERSON)


class TerminalUser:
    """The newcomer. They act in the console, by command or by key, in whatever order; the store tells what they did."""

    def __init__(self, services: DemoServices, console: str, say: StoryPrinter, keys: KeyReader) -> None:
        self._services = services
        self._console = console
        self._say = say
        self._keys = keys
        self._ticket = ""
        # Shows a page; set where there is a browser to show it in.
        self.show: Callable[[str], None] = lambda _url: None
        # Whether a link that lets somebody in may stand in the output: on a terminal only, not in a file.
        self.links = False

    async def review(self, wanted: frozenset[tuple[str, str]]) -> None:
        if not await self._lacking(wanted):
            self._say.says("you", "approved them in an earlier run, and they have not changed.")
            return
        say = self._say
        if not await self._services.enrolled():
            say.says("you", "make a passkey here (once):")
            await self._invite()
            say.note("then read and approve the tools:")
        else:
            say.says("you", "read and approve the tools:")
            self.show(f"{self._console}/tools")
        say.link(f"{self._console}/tools")
        say.same("callgate review")
        self._offer("or press r here: approve the tools that only read")

        read = asyncio.Event()

        async def harmless() -> None:
            tools = await self._lacking(wanted)
            await self._services.approve([one for name, one in tools.items() if name != TRANSFER])
            if TRANSFER in tools:
                self._show_transfer(tools[TRANSFER])
                read.set()

        async def transfer() -> None:
            tools = await self._lacking(wanted)
            # Nobody approves a text that was not shown yet.
            if TRANSFER in tools and read.is_set():
                await self._services.approve([tools[TRANSFER]])

        async def done() -> bool:
            return not await self._lacking(wanted)

        await self._until(done, {"r": harmless, "t": transfer})

    def _show_transfer(self, view: ToolView) -> None:
        self._say.says("you", "approved the tools that only read. One is left, and it moves money:")
        self._say.note(f"transfer: {escape(view.description)}")
        takes = view.input_schema["properties"] if isinstance(view.input_schema, dict) else {}
        for name, about in takes.items():
            self._say.note(f"- {escape(name)}: {escape(str(about.get('description', '')))}")
        self._offer("press t: approve transfer, as it is written here")

    async def _lacking(self, wanted: frozenset[tuple[str, str]]) -> dict[tuple[str, str], ToolView]:
        """What the story needs and nobody has approved; a tool that somebody blocked waits for them to think again."""
        tools = await self._services.tools()
        enough = {name: ("approved", "blocked") if name == CHANGING else ("approved",) for name in wanted}
        return {name: one for name, one in tools.items() if name in wanted and one.state not in enough[name]}

    async def enrol(self) -> None:
        if await self._services.enrolled():
            return
        self._say.says("you", "need a passkey from here on. Make one:")
        await self._invite()
        await self._until(self._services.enrolled, {})

    async def _invite(self) -> None:
        command = f"callgate enroll {PERSON}"
        if not self.links:
            self._say.same(command)
            return
        if not self._ticket or await self._services.approvals.look_at_ticket(self._ticket) is None:
            self._ticket = await self._services.ticket()
        link = enrolment_link(self._console, self._ticket)
        self._say.link(link)
        self.show(link)

    async def judge(self, tool: tuple[str, str]) -> None:
        server, name = tool
        named = f"--server {server} --tool {name}"
        self._say.says("you", "decide what becomes of it. Block it:")
        self._say.link(f"{self._console}/tools")
        self._say.same(f"callgate tools block {named} --note poisoned")
        self._offer("or press b here: block it")

        async def block() -> None:
            await self._services.block((await self._services.tools())[tool], WHY_BLOCKED)

        async def judged() -> bool:
            return not (await self._services.tools())[tool].needs_review

        await self._until(judged, {"b": block})

    async def decide(self, request: Request, *, advised: str) -> Request | None:
        page = approval_link(self._console, request.id)
        self._say.says("you", f"{advised} it, or do otherwise; only your passkey can approve:")
        self._say.link(page)
        self._say.same(f"callgate approvals show {request.id}", f"callgate approvals refuse {request.id}")
        self._offer("or press n here: refuse it")

        async def refuse() -> None:
            if await self._services.decided(request) is None:
                await self._services.refuse(request, WHY_REFUSED)

        return await self._until(lambda: self._services.decided(request), {"n": refuse})

    def _offer(self, what: str) -> None:
        """A key; what was pressed before it was offered counts for nothing."""
        self._keys.drop()
        if self._keys.on:
            self._say.note(what)

    async def _until(self, done: Callable[[], Awaitable[T | None]], acts: Mapping[str, Act]) -> T:
        """Look at the store again and again; meanwhile a key may do what else the console does."""
        while not (found := await done()):
            key = await self._keys.next()
            if key is not None and key in acts:
                try:
                    await acts[key]()
                except Refused as refused:
                    # The console was faster, or the text is another one by now: what holds is looked up again.
                    self._say.note(str(refused))
            await asyncio.sleep(0)
        return found


# -- the keyboard ----------------------------------------------------------------------------------------------


# Each method comes back once the decision is in the store, whoever put it there.
DemoUser: TypeAlias = SoftwareUser | TerminalUser


class KeyReader:
    """The keyboard, if there is one; `next` waits a moment for a key."""

    def __init__(self) -> None:
        self._pressed: asyncio.Queue[str] = asyncio.Queue()
        self.on = False

    def drop(self) -> None:
        """Forget what was pressed before it was asked for."""
        while not self._pressed.empty():
            self._pressed.get_nowait()

    async def next(self) -> str | None:
        """The next key as a small letter, or None after a moment."""
        try:
            async with asyncio.timeout(_KEY_SECONDS):
                return await self._pressed.get()
        except TimeoutError:
            return None

    def read(self) -> None:
        """Take what the terminal has; the end of input is not a key."""
        try:
            found = os.read(sys.stdin.fileno(), 64)
        except OSError:
            found = b""
        if not found:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.on = False
        for char in found.decode("ascii", "ignore").lower():
            self._pressed.put_nowait(char)


@contextmanager
def reading_keys(*, wanted: bool) -> Iterator[KeyReader]:
    """Keys from the terminal that this runs on. Without one, and on Windows, the console and commands are left."""
    keys = KeyReader()
    if not wanted or os.name == "nt" or not sys.stdin.isatty() or not _in_foreground():
        yield keys
        return
    import termios
    import tty

    fd, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(fd)
    # Keys arrive one by one and are not echoed; Ctrl-C stays what it is.
    tty.setcbreak(fd, termios.TCSANOW)
    loop.add_reader(fd, keys.read)
    keys.on = True
    try:
        yield keys
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSANOW, before)


def _in_foreground() -> bool:
    """Whether the terminal is ours to read: a job in the background that tries is stopped by the system."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False
