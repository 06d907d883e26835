"""Routing headers against the body, and which headers travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import MessageError, Reason
from callgate.jsonrpc import Limits, Message, parse
from callgate.protocol import CAPABILITIES_META, VERSION_META
from callgate.transport.http.exchange import (
    Exchange,
    RequestHeaderFilter,
    Routing,
    check_routing,
    decode_value,
    encode_value,
    forward_down,
    parameter_headers,
    parameter_map,
    routing_headers,
)
from support.table import rows

MODERN = "2026-07-28"


def exchange(*headers: tuple[str, str]) -> Exchange:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]

    async def unused(*_args):
        raise AssertionError

    return Exchange({"method": "POST", "path": "/mcp", "headers": raw, "client": None}, unused, unused)


def message(method="tools/call", params=None, envelope=True) -> Message:
    import msgspec

    params = dict(params if params is not None else {"name": "echo"})
    if envelope:
        params["_meta"] = {VERSION_META: MODERN, CAPABILITIES_META: {}}
    found = parse(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), Limits())
    assert isinstance(found, Message)
    return found


GOOD = (("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"))


def check(asked: Message, *headers: tuple[str, str], complete: bool = False) -> None:
    check_routing(asked, Routing(exchange(*headers)), complete=complete)


class TestAgreement:
    def test_agreement_passes(self):
        check(message(), *GOOD)
        check(message(), ("MCP-Protocol-Version", MODERN), ("Mcp-Method", " tools/call "), ("Mcp-Name", "  echo  "))

    @rows(
        "headers",
        [
            (GOOD[0], ("Mcp-Method", "tools/list"), GOOD[2]),
            (GOOD[0], ("Mcp-Method", "TOOLS/CALL"), GOOD[2]),
            (GOOD[0], GOOD[2]),
            (GOOD[0], GOOD[1]),
            (GOOD[0], GOOD[1], ("Mcp-Name", "other")),
            (GOOD[0], GOOD[1], ("Mcp-Name", "=?base64?b3RoZXI=?=")),
            (GOOD[0], GOOD[1], ("Mcp-Name", "=?base64?ZWNobw?=")),
            (("MCP-Protocol-Version", "v999"), GOOD[1], GOOD[2]),
            (*GOOD, ("Mcp-Name", "echo")),
            (*GOOD, ("mcp-method", "tools/call")),
            (("Mcp-Method", "ping"),),
            (("Mcp-Name", "other"),),
        ],
    )
    def test_disagreement_is_refused(self, headers):
        with pytest.raises(MessageError) as caught:
            check(message(), *headers)
        assert (caught.value.code, caught.value.status) == (-32020, 400)

    def test_a_wrapped_name_is_compared_unwrapped(self):
        check(message(params={"name": "ümlaut"}), GOOD[0], GOOD[1], ("Mcp-Name", encode_value("ümlaut")))

    def test_a_missing_envelope_is_left_to_a_server_that_can_see_it(self):
        check(message(envelope=False), *GOOD)
        with pytest.raises(MessageError) as caught:
            check(message(envelope=False), *GOOD, complete=True)
        assert caught.value.reason is Reason.INVALID_PARAMS

    def test_the_handshake_era_needs_no_headers(self):
        check(message(envelope=False))
        check(message(envelope=False), ("MCP-Protocol-Version", "2025-11-25"))

    @rows(("version", "modern"), [(None, False), ("2025-06-18", False), (MODERN, True), ("v9", True)])
    def test_era(self, version, modern):
        headers = () if version is None else (("MCP-Protocol-Version", version),)
        assert Routing(exchange(*headers)).modern is modern

    def test_a_batch_has_no_routing_headers(self):
        batch = parse(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', Limits())
        check_routing(batch, Routing(exchange()), complete=False)
        with pytest.raises(MessageError):
            check_routing(batch, Routing(exchange(("Mcp-Method", "ping"))), complete=False)


class TestValues:
    @given(st.text(max_size=30))
    def test_any_text_survives(self, text):
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        encoded = encode_value(text)
        assert encoded.isascii()
        assert "\n" not in encoded
        assert decode_value(encoded) == text

    @rows("damaged", ["=?base64?ZWNobw?=", "=?base64?ZWNob===?=", "=?base64?/w==?=", "=?base64?!?="])
    def test_damaged_wrapping_is_no_text(self, damaged):
        assert decode_value(damaged) is None


class TestForAClientWithoutHeaders:
    def test_modern(self):
        assert routing_headers(message()) == {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": "echo",
        }

    def test_handshake(self):
        assert routing_headers(message(envelope=False)) == {}

    def test_parameters(self):
        schema = {
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
                "bad": {"type": "string", "x-mcp-header": "no token"},
                "list": {"items": {"x-mcp-header": "Never"}},
            }
        }
        mapping = parameter_map(schema)
        assert mapping == {("region",): "Region", ("deep", "flag"): "Flag"}
        assert parameter_headers(mapping, {"region": "eu", "deep": {"flag": True}}) == {
            "mcp-param-region": "eu",
            "mcp-param-flag": "true",
        }
        assert parameter_headers(mapping, {"region": None}) == {}


class TestTravel:
    def test_up(self):
        sent = exchange(
            ("Host", "gate"),
            ("Authorization", "Bearer mine"),
            ("Cookie", "a=b"),
            ("Connection", "keep-alive, X-Private"),
            ("X-Private", "1"),
            ("X-Custom", " kept "),
            ("Accept-Encoding", "gzip"),
            ("Content-Length", "3"),
            ("Origin", "http://localhost"),
            ("X-Own", "the client's"),
            ("Mcp-Session-Id", "s"),
        )
        up = RequestHeaderFilter([(b"x-own", b"configured")], authorization=False).headers(sent)
        assert up == [
            (b"x-custom", b"kept"),
            (b"mcp-session-id", b"s"),
            (b"accept-encoding", b"identity"),
            (b"x-own", b"configured"),
        ]
        assert (b"authorization", b"Bearer mine") in RequestHeaderFilter([], authorization=True).headers(sent)

    def test_down(self):
        got = [(b"Content-Type", b"application/json"), (b"Set-Cookie", b"x"), (b"Transfer-Encoding", b"chunked")]
        assert forward_down([*got, (b"Mcp-Session-Id", b"s")]) == [
            (b"content-type", b"application/json"),
            (b"mcp-session-id", b"s"),
        ]
