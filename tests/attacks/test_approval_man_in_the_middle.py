"""Somebody between client and server rewrites the arguments of an approved call, or sends it once more for themselves."""

import contextlib
import socket
import threading

from support.approval_peer import ERAS, HttpPeer, refusal, text_of
from support.raw import SECONDS
from support.registry import requirement
from support.table import rows

MINE = {"resourceId": "mine"}


class Middle:
    """A TCP relay that changes requests on their way; `seen` has what it relayed."""

    def __init__(self, target, change):
        self.target = target
        self.change = change
        self.seen = []

    def serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(client,), daemon=True).start()

    def relay(self, client):
        with client, socket.create_connection(self.target, timeout=SECONDS) as server, contextlib.suppress(OSError):
            client.settimeout(SECONDS)
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            while len(body) < length:
                body += client.recv(65536)
            self.seen.append(body)
            server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + self.change(body))
            while chunk := server.recv(65536):
                client.sendall(chunk)


@contextlib.contextmanager
def middle(url, change):
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    relay = Middle((host, int(port)), change)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=relay.serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", relay
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(SECONDS)


@rows("era", ERAS)
@requirement("VA-169", "VA-125")
def test_rewritten_arguments_are_refused(library, era):
    def change(body):
        # Same length, so that nothing else has to change.
        return body.replace(b'"mine"', b'"them"') if b'"tools/call"' in body else body

    alice = library.join(f"middle-{era}", era)
    before = len(library.executed)
    with middle(library.url, change) as (url, relay):
        through = HttpPeer(url, era, x_user=alice.name)
        challenge = through.challenge("delete_resource", MINE)
        assert challenge["displayText"] == "Permanently delete resource mine"
        answer = through.call("delete_resource", MINE, alice.signs(challenge))
        assert refusal(answer) == (-32001, "argument_hash_mismatch")
        assert any(b'"mine"' in body and b'"tools/call"' in body for body in relay.seen)
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", MINE, alice.signs(challenge))) == "deleted mine"


@requirement("VA-169", "VA-125")
def test_a_rewritten_challenge_shows_what_will_be_done(library):
    """Rewritten on both ways, the person reads the attacker's call: they are asked for what is done, not for what was said."""
    alice = library.join("middle-both")
    with middle(library.url, lambda body: body.replace(b'"mine"', b'"them"')) as (url, _relay):
        through = HttpPeer(url, x_user=alice.name)
        assert through.challenge("delete_resource", MINE)["displayText"] == "Permanently delete resource them"


@requirement("VA-169", "VA-106")
def test_a_call_that_is_sent_once_more_runs_once(library):
    alice = library.join("middle-again")
    before = len(library.executed)
    with middle(library.url, lambda body: body) as (url, relay):
        through = HttpPeer(url, x_user=alice.name)
        challenge = through.challenge("delete_resource", MINE)
        assert text_of(through.call("delete_resource", MINE, alice.signs(challenge))) == "deleted mine"
        again = alice.peer.send(relay.seen[-1], "tools/call", "delete_resource")
    assert refusal(again) == (-32001, "challenge_consumed")
    assert library.executed[before:] == [("delete_resource", "mine")]
