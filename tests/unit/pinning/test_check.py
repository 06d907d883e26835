"""The check that answers at once: whatever ends an approval ends it for the next call, and for one on its way."""

import json

import msgspec

from callgate.errors import Reason
from callgate.gate import Call
from callgate.pinning.chain import DecisionChain
from callgate.pinning.identity import ServerRef, http_identity
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import EntryReader, ToolListing, read_page
from callgate.pinning.model import TOOLSET_META, Pin, PinningSettings
from callgate.pinning.stage import PinningStage, answer
from callgate.pinning.storage import Sealed
from callgate.pinning.toolsets import Toolsets
from callgate.pipeline.context import RequestContext
from support.table import rows

URL = "http://127.0.0.1:9/mcp"
TOOLS = [{"name": name, "description": "Reads.", "inputSchema": {"type": "object"}} for name in ("ls", "cat")]
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}).encode()
IDENTITY = http_identity(URL)


class Wire:
    waited = 0.0
    caller = None
    held = None
    reply = LIST

    def __init__(self):
        self.judged = {}

    def meanwhile(self):
        """While the server is asked."""

    async def turn(self):
        pass

    async def ask(self, _message):
        self.meanwhile()
        return self.reply


class Sets:
    version = 0

    def __init__(self):
        self.waiting = {}
        self.over = ""

    def held(self, _server_id, _book):
        return self.waiting

    @property
    def refusals(self):
        return {"files": self.over} if self.over else {}

    def refused(self, _place):
        return self.over


def pins(action):
    page = read_page(LIST)
    reader = EntryReader(IDENTITY.server_id, PinningSettings())
    return [
        Pin(
            action=action,
            server_id=IDENTITY.server_id,
            lineage=IDENTITY.lineage,
            server="files",
            tool=tool.name,
            approval_hash=tool.approval_hash,
            approved_at=1,
            approved_by="ann",
            beside=tool.beside,
            raw=tool.raw,
        )
        for tool in map(reader.read, page.entries)
    ]


class Desk:
    """A check on one line, with everything that it goes by within reach."""

    def __init__(self):
        self.book = DecisionChain(lambda: [bytes(32)])
        self.head = None
        self.decide("approve")
        self.now, self.stale = 0.0, False
        self.sets = Sets()
        self.toolsets = Toolsets(self, PinningSettings(), met=lambda _: None, clock=lambda: self.now)
        self.toolsets.sets = self.sets
        self.place = ServerRef("files", "", URL, lambda _reported: IDENTITY)
        self.configure(PinningSettings())
        self.check = PinningStage(
            self.toolsets,
            stale=lambda: self.stale,
            settle_in=self.settle_in,
            looked=self.looked,
            notifier=None,
            review=self.review,
        )

    def configure(self, settings):
        self.toolsets.configure(settings, {"files": self.place}, 5.0)

    async def settle_in(self, _server):
        pass

    async def looked(self, _toolset, _tool):
        return False

    async def review(self):
        return "somewhere"

    def decide(self, action, book=None):
        sealed, self.head = self.book.link(pins(action))(self.head)
        (book or self.book).read(self.head, sealed)

    def call(self, tool="ls", meta=None, session="s"):
        visit = RequestContext("files", "http", session=session, line=Wire())
        return Call("c", 1, tool, {}, b"{}", b"", meta or {}, visit)

    async def ready(self):
        await self.toolsets.verify(self.call().context, {})
        assert self.check.at_once(self.call()) is not None
        assert self.check.pre_dispatch_check(self.call()) is None
        return self


def blocked(desk):
    desk.decide("block")


def withdrawn(desk):
    desk.decide("withdraw")


def another_book(desk):
    desk.book = DecisionChain(lambda: [bytes(32)])


def broken_in_place(desk):
    desk.book.read(None, [Sealed(desk.head.seq + 1, b"", bytes(32))])


def held_with_others(desk):
    desk.sets.waiting, desk.sets.version = {"ls": "seen with mail now"}, 1


def the_list_changed(desk):
    desk.toolsets.hear("files", b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')


def greeted_again(desk):
    desk.toolsets.greeted("files", "s", {"name": "another"})


def forgotten(desk):
    desk.toolsets.forget("files")


def nobody_knows(desk):
    desk.stale = True


ENDS = (
    (blocked, Reason.TOOL_BLOCKED),
    (withdrawn, Reason.TOOL_NOT_APPROVED),
    (another_book, Reason.TOOL_NOT_APPROVED),
    (broken_in_place, Reason.PIN_TAMPERED),
    (held_with_others, Reason.SET_NOT_REVIEWED),
    (the_list_changed, Reason.TOOLSET_UNVERIFIED),
    (greeted_again, Reason.TOOLSET_UNVERIFIED),
    (forgotten, Reason.TOOLSET_UNVERIFIED),
    (nobody_knows, Reason.STORE_UNAVAILABLE),
)


@rows(("ends", "reason"), ENDS, ids=[ends.__name__ for ends, _ in ENDS])
async def test_what_ends_an_approval_ends_it_for_calls_on_their_way(ends, reason):
    desk = await Desk().ready()
    ends(desk)
    assert desk.check.at_once(desk.call()) is None
    assert desk.check.pre_dispatch_check(desk.call()).reason is reason


@rows(("ends", "reason"), ENDS, ids=[ends.__name__ for ends, _ in ENDS])
async def test_a_call_that_was_let_through_does_not_leave_after_that(ends, reason):
    desk = await Desk().ready()
    call = desk.call()
    assert desk.check.at_once(call) is not None
    assert desk.check.pre_dispatch_check(call) is None
    ends(desk)
    assert desk.check.pre_dispatch_check(call).reason is reason


async def test_a_caller_without_a_session_does_not_leave_after_the_server_began_anew():
    desk = Desk()
    await desk.toolsets.verify(desk.call(session=None).context, {})
    call = desk.call(session=None)
    assert desk.check.at_once(call) is not None
    desk.toolsets.greeted("files", None, {"name": "another"})
    assert desk.check.pre_dispatch_check(call).reason is Reason.TOOLSET_UNVERIFIED


def crowded_out(desk):
    desk.toolsets._lines._most = 1
    desk.toolsets.line(desk.call(session="t").context)


def outweighed(desk):
    desk.toolsets._lines._most_bytes = 0
    desk.toolsets.line(desk.call(session="t").context)
    desk.toolsets._lines.grown(1)


@rows("forget", [crowded_out, outweighed])
async def test_a_call_does_not_leave_by_a_line_that_others_crowded_out(forget):
    desk = await Desk().ready()
    call = desk.call()
    assert desk.check.at_once(call) is not None
    assert len(desk.toolsets._listings) == 1
    forget(desk)
    assert desk.check.pre_dispatch_check(call).reason is Reason.TOOLSET_UNVERIFIED
    # However long it waits for a person, it keeps no list that is forgotten otherwise.
    assert len(desk.toolsets._listings) == 0


@rows("forget", [crowded_out, outweighed])
async def test_a_list_that_is_read_anew_counts_though_the_line_was_crowded_out(forget):
    desk = await Desk().ready()
    call = desk.call()
    assert desk.check.at_once(call) is not None
    forget(desk)
    # A person took their time, and what the tool says is another text by now. Nobody was told.
    call.context.line.reply = LIST.replace(b"Reads.", b"Deletes.")
    assert (await desk.check.recheck(call)).reason is Reason.TOOL_CHANGED
    assert desk.check.pre_dispatch_check(call).reason is Reason.TOOL_CHANGED


@rows("ends", [greeted_again, forgotten, crowded_out])
async def test_a_list_that_comes_late_does_not_bring_back_a_line_that_is_over(ends):
    desk = await Desk().ready()
    call, other = desk.call(), desk.call()
    assert desk.check.at_once(call) is not None
    desk.now = PinningSettings().recheck_seconds + 1
    other.context.line.meanwhile = lambda: ends(desk)
    await desk.toolsets.verify(other.context, {})
    for one in (call, other):
        assert desk.check.pre_dispatch_check(one).reason is Reason.TOOLSET_UNVERIFIED


async def test_a_list_that_grew_old_and_a_server_without_a_place_take_longer():
    desk = await Desk().ready()
    desk.now = PinningSettings().recheck_seconds + 1
    assert desk.check.at_once(desk.call()) is None
    # What was let through before may leave: its list was young enough then.
    assert desk.check.pre_dispatch_check(desk.call()) is None
    desk.now, desk.sets.over = 0.0, "too many servers"
    assert desk.check.at_once(desk.call()) is None


async def test_another_configuration_is_judged_by_at_once():
    desk = await Desk().ready()
    before = desk.toolsets.current(desk.call().context)
    desk.configure(PinningSettings(rollback="allow"))
    assert desk.toolsets.current(desk.call().context) is not before


async def test_a_line_that_was_not_read_passes_nothing():
    desk = await Desk().ready()
    for call in (desk.call(session="t"), desk.call(session=None), desk.call("rm"), desk.call("LS")):
        assert desk.check.at_once(call) is None
        assert desk.check.pre_dispatch_check(call) is not None


async def test_a_version_that_the_call_names_has_to_be_the_one_in_force():
    desk = await Desk().ready()
    version = desk.toolsets.current(desk.call().context).version
    assert desk.check.at_once(desk.call(meta={TOOLSET_META: version})) is not None
    assert desk.check.at_once(desk.call(meta={TOOLSET_META: None})) is not None
    for other in (version[:-1], "", 0, [version]):
        assert desk.check.at_once(desk.call(meta={TOOLSET_META: other})) is None


async def test_the_record_says_the_same_however_the_call_was_let_through():
    desk = await Desk().ready()
    quick, slow = desk.check.at_once(desk.call()), await desk.check(desk.call())
    assert msgspec.json.encode(quick.facts) == msgspec.json.encode(slow.facts)
    assert msgspec.json.decode(slow.facts["pin"])["state"] == "approved"


def told(book, listed=LIST, identity=IDENTITY, held=None):
    """What the gateway's own tool says of `ls`, and how a call of it is refused."""
    reader = EntryReader(identity.server_id, PinningSettings())
    listing = ToolListing(map(reader.read, read_page(listed).entries))
    toolset = Toolset(identity, listing, book, PinningSettings(), held)
    said = answer("files", toolset, toolset.pending, "here", modern=False)["content"][0]["text"]
    (line,) = [line for line in said.splitlines() if line.startswith("- ls: ")]
    standing = toolset.standing("ls")
    return line.removeprefix("- ls: "), standing.detail or standing.reason.meaning


def test_what_waits_is_told_in_the_words_of_the_refusal():
    newer = msgspec.structs.replace(IDENTITY, server_id=f"{IDENTITY.server_id} 2")
    nothing, approved = DecisionChain(lambda: [bytes(32)]), Desk().book
    assert told(nothing) == ("nobody has approved this tool yet", "Nobody has approved this tool yet.")
    line, refusal = told(approved, identity=newer)
    assert line == refusal
    assert line.startswith("the server is another one, or another version, than the one this tool was approved for")
    line, refusal = told(approved, LIST.replace(b"Reads.", b"Deletes."))
    assert line == refusal[0].lower() + refusal[1:].rstrip(".")
    assert line.startswith("the tool is not the one that was approved")


def test_what_waits_for_a_review_with_others_is_told_without_the_names_of_their_tools():
    line, refusal = told(Desk().book, held={"ls": "its definition touches ignore_all_of_it there"})
    assert "ignore_all_of_it" in refusal
    assert line == "approved, but not together with another server"
