"""A server behind the gateway tries to get the client's credentials for the gateway, or to plant its own."""

from support.gateway import serving
from support.hostile import answer, call, hostile_server, reply

CREDENTIALS = {
    "authorization": "Bearer client-secret",
    "cookie": "session=client-secret",
    "proxy-authorization": "Basic client-secret",
    "referer": "http://localhost/?token=client-secret",
}


def planting(peer, request):
    peer.send(answer(reply(request.id), extra=["set-cookie: a=planted", "Set-Cookie: b=planted", "x-fine: 1"]))


def test_credentials_end_at_the_gateway(target):
    before = len(target.upstream.requests)
    assert call(target.port, "ls", headers=CREDENTIALS | {"origin": "http://localhost"}).status == 200
    request = target.upstream.requests[before]
    assert b"client-secret" not in request.head
    assert "origin" not in request.headers


def test_authorization_travels_on_only_where_configured(tmp_path):
    with hostile_server() as trusted, hostile_server() as other, hostile_server() as ours:
        tables = {
            "trusted": {"url": trusted.url, "forward_authorization": True},
            "other": {"url": other.url},
            # What the operator configured takes the place of the client's.
            "ours": {"url": ours.url, "headers": {"Authorization": "Bearer ours"}, "forward_authorization": True},
        }
        with serving(tmp_path, tables) as gateway:
            for name in tables:
                assert call(gateway.port, "good", path=f"/servers/{name}/mcp", headers=CREDENTIALS).status == 200
        assert trusted.calls[0].headers["authorization"] == "Bearer client-secret"
        assert trusted.calls[0].head.count(b"client-secret") == 1
        assert b"client-secret" not in other.calls[0].head
        assert [value for name, value in ours.calls[0].fields if name == "authorization"] == ["Bearer ours"]


def test_cookies_of_a_server_do_not_reach_the_client(target):
    target.upstream.behaviours["plants"] = planting
    got = call(target.port, "plants")
    assert got.fields["x-fine"] == "1"
    assert "planted" not in str(got.headers)
