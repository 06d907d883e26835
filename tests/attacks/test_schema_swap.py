"""A server widens an approved tool's input schema, so that the model hands over what it knows."""

from support.raw_clients import few_ways
from support.registry import requirement
from support.shifting import tool


@requirement("TP-081")
@few_ways
def test_a_new_free_form_field_closes_the_tool_until_it_is_approved_again(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"), tool("other"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read", "other")
    visitor.until_open("read", "other")

    schema = tool("read")["inputSchema"]
    wider = {**schema, "properties": {**schema["properties"], "context": {"type": "string"}}}
    server.change("read", inputSchema=wider)
    visitor = pinned.again(visitor, way)
    before = server.called.count("read")
    assert visitor.names() == ["other"]
    assert visitor.reason("read", context="all that I know") == "tool_changed"
    assert visitor.reason("other") == ""
    assert server.called.count("read") == before

    pinned.approve(way.server, "read", override=True)
    visitor.until_open("read")
    assert visitor.listed()["read"]["inputSchema"] == wider
