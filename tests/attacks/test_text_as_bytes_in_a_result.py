"""A stranger's text comes as bytes: a text in Base64 is read all the same, and what nobody here can read is known to be there."""

import base64
import json

from support.remembering import Talk, reading
from support.table import rows
from support.trust_gateway import EVIL, FRIENDS, PAGE, text

ENCODED = base64.b64encode(PAGE.encode()).decode()
WRAPPED = base64.encodebytes(PAGE.encode()).decode()
URL_SAFE = base64.urlsafe_b64encode(PAGE.encode()).decode().rstrip("=")
JSON = base64.b64encode(json.dumps({"hours": PAGE}).encode()).decode()
PIXELS = base64.b64encode(bytes(range(256)) * 4).decode()
KEY = "AKIA" + "3QX7PLM2RZ6TNB4K"


def resource(**more):
    return {"content": [{"type": "resource", "resource": {"uri": "x:y", **more}}]}


RESULTS = {
    "a text in a resource": resource(mimeType="text/plain", blob=ENCODED),
    "without a type": resource(blob=ENCODED),
    "called an image": resource(mimeType="image/png", blob=ENCODED),
    "JSON": resource(mimeType="application/json", blob=JSON),
    "a picture of letters": {"content": [{"type": "image", "mimeType": "image/svg+xml", "data": ENCODED}]},
    "in lines": resource(blob=WRAPPED),
    "in the other alphabet": resource(blob=URL_SAFE),
    "with a mark before it": resource(blob=base64.b64encode(b"\xef\xbb\xbf" + PAGE.encode()).decode()),
    "in two bytes a letter": resource(blob=base64.b64encode(PAGE.encode("utf-16")).decode()),
    "as a text of its own": text(ENCODED),
    "in structured content": text("fine", structuredContent={"encoding": "base64", "content": WRAPPED}),
    "in JSON in a text": text(json.dumps({"encoding": "base64", "content": ENCODED})),
    "as an address": text("fine", structuredContent={"page": f"data:text/plain;base64,{ENCODED}"}),
    "words where bytes are": {"content": [{"type": "image", "mimeType": "image/png", "data": PAGE}]},
    "words beside the bytes": resource(blob=PIXELS, caption=PAGE),
}
READS = {
    "a resource": {"contents": [{"uri": "x:y", "mimeType": "text/plain", "blob": ENCODED}]},
    "a prompt": {
        "messages": [{"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": ENCODED}}]
    },
}


@rows("result", RESULTS.values(), ids=RESULTS)
def test_a_text_in_bytes_is_a_strangers_text(trusting, result):
    agent = trusting.agent(prompt=FRIENDS)
    trusting.servers["web"].write(results={"fetch": result})
    assert "result" in agent.call("web", "fetch", url="https://shop.example")
    assert agent.asked_about(EVIL)
    assert trusting.trust_of("send_email")["rule"] == "stranger-decides"
    assert not agent.asked_about("carol@example.com")


@rows("answer", READS.values(), ids=READS)
def test_so_is_what_is_read(trusting, answer):
    agent = trusting.agent(prompt=FRIENDS)
    method = "resources/read" if "contents" in answer else "prompts/get"
    trusting.servers["web"].write(answers={method: answer})
    agent.request("web", method, {"uri": "x:y"})
    assert agent.asked_about(EVIL)
    assert trusting.trust_of("send_email")["rule"] == "stranger-decides"


def test_a_key_in_bytes_is_masked(trusting):
    agent = trusting.agent()
    secret = base64.b64encode(f"the key is {KEY}, keep it".encode()).decode()
    trusting.servers["web"].write(results={"fetch": resource(blob=secret)})
    answer = agent.call("web", "fetch", url="https://shop.example")
    blob = answer["result"]["content"][0]["resource"]["blob"]
    assert base64.b64decode(blob) == b"the key is [masked: an AWS access key], keep it"


UNREAD = {
    "an image": {"content": [{"type": "image", "mimeType": "image/png", "data": PIXELS}]},
    "a sound": {"content": [{"type": "audio", "mimeType": "audio/wav", "data": PIXELS}]},
    "bytes": resource(blob=PIXELS),
}


@rows("result", UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_read_makes_a_session_one_of_the_open_world(trusting, result):
    agent = trusting.agent()
    trusting.servers["web"].write(results={"fetch": result})
    agent.call("web", "fetch", url="https://shop.example")
    agent.asked_about("carol@example.com")
    assert trusting.trust_of("send_email")["taken"]["open_world"] is True


@rows(("source", "unread"), [("untrustedPublic", True), ("user", False)])
def test_a_memory_knows_that_it_could_not_read_something_and_after_a_restart(source, unread):
    talk, later = Talk(), Talk()
    talk.read(reading("look", source), None, "see the picture", unread=True)
    talk.read(reading("look", source), None, "and a text")
    assert talk.memory.unread is unread
    for seq in (1, 2):
        later.memory.take(talk.step(seq))
    assert later.memory.unread is unread
    assert not later.memory.overflowed


def test_numbers_and_ids_are_no_bytes(trusting):
    agent = trusting.agent()
    result = text("fine", structuredContent={"id": "9f8e7d6c5b4a39281706f5e4d3c2b1a0", "words": "abcd" * 20})
    trusting.servers["web"].write(results={"fetch": result})
    assert (
        agent.call("web", "fetch", url="https://shop.example")["result"]["structuredContent"]
        == result["structuredContent"]
    )
