"""Prompts and what a server says of itself, read so that no two readers can see two different texts."""

import json

from callgate.pinning.listing import PROMPTS, EntryReader, ToolListing, greeting_items, read_page
from callgate.pinning.model import PinningSettings
from support.table import rows

SETTINGS = PinningSettings()
PROMPT = {
    "name": "brief",
    "title": "Brief",
    "description": "Sums up.",
    "arguments": [{"name": "id", "description": "Which.", "required": True}, {"name": "tone"}],
}


def read(entry):
    raw = entry if isinstance(entry, bytes) else json.dumps(entry).encode()
    return EntryReader("s", SETTINGS, kind="prompt").read(raw)


def test_a_prompt_is_reviewed_as_a_tool_whose_fields_are_its_arguments():
    made = read(PROMPT)
    assert (made.name, made.problem) == ("prompt:brief", "")
    assert made.wire == json.dumps(PROMPT).encode()
    fields = made.input_schema["properties"]
    assert fields == {"id": {"type": "string", "description": "Which."}, "tone": {"type": "string"}}
    assert made.input_schema["required"] == ["id"]
    # What is kept of it is read again to the same.
    again = EntryReader("s", SETTINGS).stored(made.name, made.raw)
    assert (again.approval_hash, again.beside) == (made.approval_hash, made.beside)


CHANGES = {
    "description": {"description": "Sums up!"},
    "an argument's description": {
        "arguments": [{"name": "id", "description": "All.", "required": True}, {"name": "tone"}]
    },
    "an argument more": {"arguments": [*PROMPT["arguments"], {"name": "all"}]},
    "an argument less": {"arguments": PROMPT["arguments"][:1]},
    "required": {"arguments": [PROMPT["arguments"][0], {"name": "tone", "required": True}]},
    "a member of an argument": {"arguments": [PROMPT["arguments"][0], {"name": "tone", "title": "Tone"}]},
    "a title": {"title": "Other"},
    "a member that nobody knows": {"hint": "x"},
}


@rows("what", CHANGES)
def test_every_text_of_it_is_approved(what):
    before, after = read(PROMPT), read({**PROMPT, **CHANGES[what]})
    assert not after.problem
    assert (before.approval_hash, before.beside) != (after.approval_hash, after.beside)


UNFIT = {
    "no name": {"arguments": []},
    "arguments that are no list": {**PROMPT, "arguments": {"name": "id"}},
    "an argument without a name": {**PROMPT, "arguments": [{}]},
    "two arguments of one name": {**PROMPT, "arguments": [{"name": "id"}, {"name": "id"}]},
    "another spelling": {**PROMPT, "Arguments": []},
    "another spelling in an argument": {**PROMPT, "arguments": [{"name": "id", "Description": "x"}]},
    "a tool's schema": {**PROMPT, "inputSchema": {}},
    "a key twice": b'{"name":"brief","description":"a","description":"b"}',
    "half a character": b'{"name":"brief","description":"\\ud800"}',
    "too much": {**PROMPT, "description": "x" * 70_000},
}


@rows("what", UNFIT)
def test_what_reads_in_two_ways_can_be_approved_by_nobody(what):
    made = read(UNFIT[what])
    assert made.problem
    assert not made.approval_hash


def test_no_tool_takes_a_name_of_another_item():
    for name in ("server:instructions", "server:info", "server:else", "prompt:brief"):
        made = EntryReader("s", SETTINGS).read(json.dumps({"name": name, "inputSchema": {}}).encode())
        assert made.problem == "its name is the gateway's own"


def test_two_prompts_of_one_name_are_none():
    listing = ToolListing([read(PROMPT), read({**PROMPT, "description": "Else."})])
    assert listing.tools["prompt:brief"].problem == "the server lists two prompts of this name"
    assert listing.doubled == {"prompt:brief"}


def test_a_page_of_prompts_is_no_page_of_tools():
    reply = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"prompts": [PROMPT]}}).encode()
    assert read_page(reply) is None
    assert len(read_page(reply, of=PROMPTS).entries) == 1


def test_what_a_greeting_says():
    info = {"name": "a", "version": "1", "icons": [{"src": "x:y"}], "pid": 17, "title": "A", "hint": ["b"]}
    both = greeting_items({"instructions": "Read."}, [info], "s", SETTINGS)
    assert [(one.name, one.entry) for one in both] == [
        ("server:instructions", {"name": "server:instructions", "description": "Read."}),
        ("server:info", {"name": "server:info", "title": "A", "hint": ["b"]}),
    ]
    assert greeting_items({"instructions": ""}, [{"name": "a", "version": "1"}], "s", SETTINGS) == []
    # Two places that say two things: neither was approved.
    (torn,) = greeting_items({}, [{"description": "one"}, {"description": "two"}], "s", SETTINGS)
    assert torn.problem
