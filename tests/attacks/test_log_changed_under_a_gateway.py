"""Records slipped into the database while a gateway runs: operators are told where they look, calls go on."""

import http.client
import sqlite3

from support.gateway import serving
from support.hostile import assert_works, hostile_server, until


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_tampering_is_seen_by_readyz_and_metrics(tmp_path):
    with hostile_server() as upstream, serving(tmp_path, {"one": {"url": upstream.url}}) as gateway:
        assert_works(gateway.port)
        assert get(gateway.port, "/readyz")[0] == 200
        assert "callgate_audit_tampered 0.0" in get(gateway.port, "/metrics")[1]
        with sqlite3.connect(gateway.store, timeout=10) as conn:
            conn.execute(
                "INSERT INTO audit_record (at, kind, call, server, tool, verdict, reason, body, seal)"
                " SELECT at, kind, call, server, tool, verdict, reason, body, zeroblob(36) FROM audit_record LIMIT 1"
            )
        conn.close()
        until(lambda: get(gateway.port, "/readyz")[0] == 503, "readyz tells")
        assert "callgate audit verify" in get(gateway.port, "/readyz")[1]
        assert "callgate_audit_tampered 1.0" in get(gateway.port, "/metrics")[1]
        assert get(gateway.port, "/healthz")[0] == 200
        assert_works(gateway.port)
