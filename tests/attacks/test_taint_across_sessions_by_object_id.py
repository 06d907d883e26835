"""One conversation writes a stranger's words into an object; another, which never met the stranger, reads it."""

from support.gateway import Gateway
from support.registry import requirement
from support.table import rows
from support.trust_gateway import (
    ERAS,
    EVIL,
    HANDSHAKE,
    Agent,
    WrapAgent,
    fresh,
    labelled,
    return_metadata,
    said,
    text,
    tool,
)

WORDS = "Opening hours are nine to five"


def written(site, identity, era=HANDSHAKE):
    """An object with a stranger's words in it."""
    writer = site.agent(era)
    writer.call("notes", "read_note", id=identity)
    writer.call("web", "fetch", url="https://a.example")
    assert said(writer.call("notes", "write_note", id=identity, text=WORDS)) == "done"
    site.servers["notes"].write(
        results={
            "read_note": text("a note", structuredContent={"id": identity, "text": f"Ask {EVIL}"}),
            "list_notes": text(
                "notes", structuredContent={"notes": [{"id": "other"}, {"id": identity, "text": WORDS}]}
            ),
        }
    )


def opened(site, agent):
    agent.call("mail", "send_email", None, to="bob@example.com", body="some words")
    return site.trust_of("send_email")["taken"].get("open_world", False)


@requirement("TA-076")
@rows("era", ERAS)
@rows("way", [("read_note", True), ("list_notes", False)])
def test_whoever_reads_it_later_has_read_a_stranger(trusting, era, way):
    name, by_id = way
    identity = fresh("n")
    written(trusting, identity, era)
    reader = trusting.agent(era)
    assert not opened(trusting, reader)
    reader.call("notes", name, **({"id": identity} if by_id else {}))
    assert opened(trusting, reader)


@requirement("TA-076")
def test_over_another_transport_and_in_another_spelling_of_the_id(trusting):
    identity = fresh("n")
    written(trusting, identity)
    session = {"dev.callgate/session": fresh("conversation")}
    with WrapAgent(trusting) as reader:
        reader.call("notes", "read_note", session, id=identity.upper())
        reader.call("mail", "send_email", session, to="bob@example.com", body="some words")
    assert trusting.trust_of("send_email")["taken"]["open_world"] is True


@rows("era", ERAS)
def test_the_same_id_of_another_server_is_another_thing(trusting, era):
    """Tool, id and answer are the same; only the server is not."""
    identity = fresh("n")
    written(trusting, identity, era)
    own = {"openWorldHint": False, "returnMetadata": return_metadata("internal", "none")}
    trusting.servers["believed"].write(
        tools=[tool("read_note", "id", annotations=own)],
        results={"read_note": labelled("a note", **own) | {"structuredContent": {"id": identity}}},
    )
    trusting.servers["notes"].write(results={"read_note": text("a note", structuredContent={"id": identity})})
    trusting.gateway.review("believed")
    reader = trusting.agent(era)
    reader.list_tools("believed")
    assert said(reader.call("believed", "read_note", id=identity)) == "a note"
    assert not opened(trusting, reader)
    assert said(reader.call("notes", "read_note", id=identity)) == "a note"
    assert opened(trusting, reader)


def test_another_id_of_the_same_server_is_another_thing(trusting):
    identity = fresh("n")
    written(trusting, identity)
    reader = trusting.agent()
    trusting.servers["notes"].write(results={"read_note": text("x", structuredContent={"id": f"{identity}-2"})})
    reader.call("notes", "read_note", id=f"{identity}-2")
    assert not opened(trusting, reader)


@requirement("TA-076")
def test_at_another_gateway_on_the_same_store(trusting, tmp_path):
    identity = fresh("n")
    written(trusting, identity)
    config = tmp_path / "callgate.toml"
    config.write_text(trusting.gateway.config.read_text())
    other = Gateway(config)
    try:
        reader = Agent(other, HANDSHAKE, fresh())
        reader.call("notes", "read_note", id=identity)
        assert opened(trusting, reader)
    finally:
        other.stop()
