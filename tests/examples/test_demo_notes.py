"""examples/demo: the notes server by itself: both eras, its bounds, and the `mcp` SDK's client as the judge."""

import io
import json
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from callgate.trust.vocabulary import Vocabulary
from callgate_demo.notes import MAX_NOTES, MAX_TEXT, NoteError, Notes
from callgate_demo.server import HANDSHAKE, MAX_LINE, MODERN, VERSION_META, NotesServer
from support.table import rows


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "notes"


@pytest.fixture
def notes(folder):
    found = Notes(folder)
    found.create_files()
    return found


@pytest.fixture
def ask(notes):
    server = NotesServer(notes)

    def ask(method, params=None, rpc_id=1):
        message = {"jsonrpc": "2.0", "id": rpc_id, "method": method} | ({} if params is None else {"params": params})
        (reply,) = server.answers(json.dumps(message).encode() + b"\n")
        assert reply["id"] == rpc_id
        return reply

    return ask


def modern(**params):
    return params | {"_meta": {VERSION_META: MODERN, "io.modelcontextprotocol/clientCapabilities": {}}}


@rows("mode", ["auto", "legacy", MODERN])
async def test_the_sdk_client_reads_writes_and_deletes(folder, mode):
    transport = stdio_client(StdioServerParameters(command=sys.executable, args=["-m", "callgate.demo", str(folder)]))
    async with Client(transport, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"list_notes", "read_note", "write_note", "send_note", "delete_note"}
        assert tools["read_note"].annotations.read_only_hint is True
        assert tools["write_note"].annotations.destructive_hint is True
        await client.call_tool("write_note", {"name": "new", "text": "Grüße 🌍"})
        assert (await client.call_tool("read_note", {"name": "new"})).content[0].text == "Grüße 🌍"
        await client.call_tool("delete_note", {"name": "new"})
        gone = await client.call_tool("read_note", {"name": "new"})
        assert gone.is_error
        assert "no note 'new'" in gone.content[0].text


@rows("version", HANDSHAKE)
def test_a_handshake_version_it_knows_is_answered_in_kind(ask, version):
    assert ask("initialize", {"protocolVersion": version})["result"]["protocolVersion"] == version


def test_one_it_does_not_know_is_answered_with_its_newest(ask):
    assert ask("initialize", {"protocolVersion": "1999-01-01"})["result"]["protocolVersion"] == HANDSHAKE[0]


def test_modern_results_say_their_type_and_handshake_results_do_not(ask):
    assert ask("tools/list", modern())["result"]["resultType"] == "complete"
    assert ask("tools/call", modern(name="list_notes"))["result"]["resultType"] == "complete"
    assert "resultType" not in ask("tools/list")["result"]
    about = ask("server/discover", modern())["result"]["serverInfo"]
    assert ask("tools/list", modern())["result"]["_meta"] == {"io.modelcontextprotocol/serverInfo": about}
    assert "_meta" not in ask("tools/list")["result"]
    assert ask("server/discover", modern())["result"]["supportedVersions"][0] == MODERN


def test_an_unknown_modern_version_is_refused_with_the_known_ones(ask):
    error = ask("tools/list", {"_meta": {VERSION_META: "2099-01-01"}})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": [MODERN, *HANDSHAKE], "requested": "2099-01-01"}


@rows("name", ["../secret", "a/b", "", ".", "A", "x" * 65, "a\n", "nul\0", "ü"])
def test_no_name_leads_out_of_the_folder(ask, folder, name):
    (folder.parent / "secret.txt").write_text("mine")
    for tool, more in (
        ("read_note", {}),
        ("write_note", {"text": "x"}),
        ("send_note", {"to": "a@b.example"}),
        ("delete_note", {}),
    ):
        result = ask("tools/call", {"name": tool, "arguments": {"name": name, **more}})["result"]
        assert result["isError"], tool
    assert (folder.parent / "secret.txt").read_text() == "mine"
    assert len(list(folder.iterdir())) == 3


@rows(
    "arguments",
    [{}, {"name": 1}, {"name": "welcome", "more": "x"}, {"name": "welcome", "text": "x" * (MAX_TEXT + 1)}],
)
def test_arguments_of_the_wrong_form_are_told_apart(notes, arguments):
    tool = notes.tools()["write_note" if "text" in arguments else "read_note"]
    with pytest.raises(NoteError):
        tool.call(arguments)


def test_text_that_is_not_unicode_is_refused_and_nothing_is_written(ask, folder):
    result = ask("tools/call", {"name": "write_note", "arguments": {"name": "half", "text": "\ud800"}})["result"]
    assert result["isError"]
    assert "half" not in ask("tools/call", {"name": "list_notes"})["result"]["content"][0]["text"]


def test_the_number_of_notes_is_bounded(notes, folder):
    for number in range(MAX_NOTES - 3):
        (folder / f"n{number}.txt").write_text("")
    write = notes.tools()["write_note"]
    with pytest.raises(NoteError, match="delete one first"):
        write.call({"name": "one-more", "text": ""})
    assert write.call({"name": "n1", "text": "changed"}) == "Wrote n1, 7 characters."


@rows(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\n", -32700),
        (b"[" * 100_000, -32700),
        (b"7", -32600),
        (b'{"id":1}', -32600),
        (b'{"id":1,"method":"nothing/here"}', -32601),
        (b'{"id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
        (b'{"id":1,"method":"tools/call","params":{"name":"list_notes","arguments":[]}}', -32602),
        (b'{"id":1,"method":"tools/list","params":[]}', -32602),
        (b"x" * (MAX_LINE + 1), -32600),
    ],
)
def test_what_is_not_a_request_gets_the_right_error(notes, line, code):
    (reply,) = NotesServer(notes).answers(line)
    assert reply["error"]["code"] == code


def test_notifications_are_not_answered_and_batches_are_answered_in_order(notes):
    server = NotesServer(notes)
    assert list(server.answers(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')) == []
    batch = b'[{"id":"a","method":"ping"},{"method":"x"},{"id":2,"method":"ping"}]'
    assert [reply["id"] for reply in server.answers(batch)] == ["a", 2]


def test_the_rest_of_a_line_that_is_too_long_is_not_a_message(notes):
    hidden = b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n'
    out = io.BytesIO()
    NotesServer(notes).serve(io.BytesIO(b" " * (MAX_LINE + 1) + hidden + b'{"id":3,"method":"ping"}\n'), out)
    assert [json.loads(line)["id"] for line in out.getvalue().splitlines()] == [None, 3]


# -- what it says of data ------------------------------------------------------------------------------------------


def test_every_tool_says_what_it_does_with_data_and_can_be_read(notes):
    for tool in notes.tools().values():
        read = Vocabulary().tool(tool.listed())
        assert read.problems == ()
        assert read.input is not None
        assert read.returns is not None
        assert read.critical is not None
        assert set(read.critical) <= set(tool.takes)


def test_a_note_that_came_from_outside_says_so_and_ones_own_does_not(ask):
    for name, stranger in (("invoice", True), ("todo", False)):
        for params in ({}, modern()):
            result = ask("tools/call", {"name": "read_note", "arguments": {"name": name}, **params})["result"]
            told = result["_meta"]["annotations"]
            assert told["openWorldHint"] is stranger
            assert told["returnMetadata"]["source"] == ("untrustedPublic" if stranger else "user")
    assert "_meta" not in ask("tools/call", {"name": "read_note", "arguments": {"name": "gone"}})["result"]


def test_sending_writes_down_to_whom_and_nothing_else(ask, folder):
    sent = ask("tools/call", {"name": "send_note", "arguments": {"name": "todo", "to": "anna@example.org"}})["result"]
    assert sent["content"][0]["text"] == "Sent todo to anna@example.org."
    assert (folder / "outbox.log").read_text().startswith("to anna@example.org: todo, ")
    assert "outbox" not in ask("tools/call", {"name": "list_notes"})["result"]["content"][0]["text"]
    for to in ("", "nobody", "a@b\nto c@d", "a b@c.example", "x" * 300 + "@example.org"):
        assert ask("tools/call", {"name": "send_note", "arguments": {"name": "todo", "to": to}})["result"]["isError"]
    assert len((folder / "outbox.log").read_text().splitlines()) == 1
