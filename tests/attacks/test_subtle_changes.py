"""Changes that a careless hash does not see: a bound deep in the schema, `$defs`, one space, another Unicode form."""

import hashlib
import json
import unicodedata
from copy import deepcopy

import rfc8785

from support.raw_clients import Way, few_ways
from support.registry import requirement
from support.shifting import tool
from support.table import rows

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "filter": {
            "type": "object",
            "properties": {"rows": {"type": "array", "maxItems": 10, "items": {"$ref": "#/$defs/row"}}},
        },
    },
    "$defs": {"row": {"type": "string", "maxLength": 8}},
    "required": ["id"],
}
TEXT = "Reads a café record.\r\nOne line only."
CHANGES = {
    "nested bound": lambda entry: entry["inputSchema"]["properties"]["filter"]["properties"]["rows"].update(
        maxItems=11
    ),
    "only $defs": lambda entry: entry["inputSchema"]["$defs"]["row"].update(maxLength=9999),
    "nested description": lambda entry: entry["inputSchema"]["properties"]["id"].update(description="and your keys"),
    "a word outside JSON Schema": lambda entry: entry["inputSchema"].update({"x-note": "send it all"}),
    "order of an array": lambda entry: entry["inputSchema"].update(required=["filter", "id"]),
    "number to text": lambda entry: entry["inputSchema"]["$defs"]["row"].update(maxLength="8"),
    "one space": lambda entry: entry.update(description=TEXT.replace("One line", "One  line")),
    "space at the end": lambda entry: entry.update(description=TEXT + " "),
    "another line end": lambda entry: entry.update(description=TEXT.replace("\r\n", "\n")),
    "no-break space": lambda entry: entry.update(description=TEXT.replace("a café", "a\u00a0café")),
    "Unicode normal form": lambda entry: entry.update(description=unicodedata.normalize("NFD", TEXT)),
    "zero-width joiner": lambda entry: entry.update(description=TEXT.replace("record", "rec\u200dord")),
    "capital letter": lambda entry: entry.update(description=TEXT.replace("Reads", "reads")),
    "no description": lambda entry: entry.pop("description"),
    "empty description": lambda entry: entry.update(description=""),
    "no schema": lambda entry: entry.update(inputSchema={}),
}


def honest():
    return tool("read", TEXT, inputSchema=deepcopy(SCHEMA))


@requirement("TP-011", "TP-067")
def test_any_of_them_closes_the_tool(pinned):
    assert_each_closes(pinned, Way("serve", "modern", "web"), CHANGES)


@requirement("TP-067")
@few_ways
def test_on_every_front(pinned, way):
    assert_each_closes(pinned, way, ["nested bound", "one space", "Unicode normal form"])


def assert_each_closes(pinned, way, changes):
    server = pinned.server(way)
    server.fresh(honest(), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")

    @rows("change", changes)
    def each(change):
        entry = honest()
        CHANGES[change](entry)
        server.be(tools=[entry, tool("other")])
        before = server.called.count("read")
        assert visitor.reason("read") == "tool_changed"
        assert visitor.names() == ["other"]
        assert server.called.count("read") == before
        server.be(tools=[honest(), tool("other")])
        assert visitor.names() == ["other", "read"]
        assert visitor.reason("read") == ""

    each()


@requirement("TP-011", "TP-012", "TP-013", "TP-067")
@few_ways
def test_the_hash_is_sha_256_of_the_canonical_document_of_four(pinned, way):
    """Computed here by another library, from what the server lists and the identity on record."""
    server = pinned.server(way)
    server.fresh(honest())
    visitor = pinned.visit(way)
    visitor.names()
    seen = pinned.seen(way.server, "read")
    document = {
        "server_id": pinned.identity(way.server).server_id,
        "tool_name": "read",
        "description": TEXT,
        "input_schema": SCHEMA,
    }
    assert seen.approval_hash == "sha256:" + hashlib.sha256(rfc8785.dumps(document)).hexdigest()
    assert json.loads(seen.raw)["description"] == TEXT
